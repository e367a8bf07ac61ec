import { isAbsolute, resolve } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import { type AnnouncedWorkspace, contradictory, createWorkspaceReader } from '../../protocol/client-selection.ts';
import type { Message } from '../../protocol/message.ts';
import { inWorkspace } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import {
  applyAnnounced,
  chooseForCredential,
  createIgnoredWorkspaceLog,
  findAllowedWorkspace,
  maxShownLength,
  type WorkspaceNames,
  workspaceNotFoundError,
} from '../../sessions/workspace-choice.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Exchange, SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/** Reads the announced workspace by the configured keys. Throws if the request announces more than one. */
type ReadAnnouncedWorkspace = (message: Message) => string | undefined;

export interface SelectOptions {
  readonly config: () => Config;
  readonly callers: Callers;
  readonly log: Log;
}

type SelectedSession = { readonly session: Session } | undefined;

/** Puts the session into the workspace that its client announces. */
export function selectWorkspace(options: SelectOptions): BeforeStage<SessionExchange<Exchange>, SelectedSession> {
  const { config, log } = options;
  const readAnnounced = createReadAnnouncedWorkspace(config);
  const logIgnoredWorkspaceOnce = createIgnoredWorkspaceLog(log);

  function applyWorkspace({ session: before, entry }: SessionExchange<Exchange>, asked: string): Session {
    const { session, ignored } = applyAnnounced(configuredNames(config()), before, asked);
    if (ignored) {
      logIgnoredWorkspaceOnce(session, asked);
      entry.ignoredWorkspace = asked.slice(0, maxShownLength);
    } else if (session !== before) entry.workspaceId = session.workspaceId;
    return session;
  }

  return {
    name: 'selectWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND', 'REQUEST_INVALID'],
    before(exchange) {
      const { era, message } = exchange;
      if (era === 'handshake' && message.method !== 'initialize') return useOpenedWorkspace(options, exchange);
      const asked = readAnnounced(message);
      return asked === undefined ? undefined : { session: applyWorkspace(exchange, asked) };
    },
  };
}

/** Puts the session into the workspace in which its transport session was opened. It is for requests without a message. */
export function useTransportWorkspace(options: SelectOptions): BeforeStage<SessionExchange, SelectedSession> {
  return {
    name: 'useTransportWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND'],
    before: (exchange) => useOpenedWorkspace(options, exchange),
  };
}

/** Uses the workspace of the handshake, as long as the session may still use it. */
function useOpenedWorkspace({ callers, config }: SelectOptions, exchange: SessionExchange): SelectedSession {
  const { session, transportId, entry } = exchange;
  const caller = transportId === undefined ? undefined : callers.get(transportId);
  const workspaceId = caller?.sessionId === session.id ? caller.workspaceId : undefined;
  if (workspaceId === undefined || session.workspaceId !== undefined) return undefined;
  if (findAllowedWorkspace(configuredNames(config()), session, workspaceId) === undefined)
    throw workspaceNotFoundError(workspaceId);
  entry.workspaceId = workspaceId;
  return { session: inWorkspace(session, workspaceId) };
}

function createReadAnnouncedWorkspace(config: () => Config): ReadAnnouncedWorkspace {
  let keys: readonly string[] = [];
  let read: (message: Message) => AnnouncedWorkspace = () => undefined;
  return function readAnnounced(message) {
    if (message.meta === undefined) return undefined;
    const { announceKeys } = config().context;
    if (announceKeys !== keys) {
      keys = announceKeys;
      read = createWorkspaceReader(announceKeys);
    }
    const asked = read(message);
    if (asked !== contradictory) return asked;
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The request announces more than one workspace.',
      hint: 'Announce one workspace, in one way.',
    });
  };
}

/**
 * Creates the function that chooses the workspace of a new session. A credential that is limited to some workspaces
 * gets the announced one, or the first. Other sessions have no workspace and may be used in each.
 */
export function createChooseWorkspace(
  config: () => Config,
): (principal: Principal, message: Message) => string | undefined {
  const readAnnounced = createReadAnnouncedWorkspace(config);
  return function chooseWorkspace(principal, message) {
    if (principal.kind !== 'user') return undefined;
    const { ceiling } = principal;
    if (ceiling.workspaces === null && ceiling.directIn === undefined) return undefined;
    return chooseForCredential(ceiling, readAnnounced(message), configuredNames(config()));
  };
}

const namesByConfig = new WeakMap<Config['workspaces'], WorkspaceNames>();

function configuredNames({ workspaces }: Config): WorkspaceNames {
  const known = namesByConfig.get(workspaces);
  if (known !== undefined) return known;
  const byPath = new Map<string, string[]>();
  for (const [slug, { path }] of Object.entries(workspaces)) {
    if (path === undefined) continue;
    const normal = resolve(path);
    byPath.set(normal, [...(byPath.get(normal) ?? []), slug]);
  }
  const names: WorkspaceNames = {
    findIds(name) {
      if (Object.hasOwn(workspaces, name)) return [name];
      return isAbsolute(name) ? (byPath.get(resolve(name)) ?? []) : [];
    },
    trustOf: (id) => workspaces[id]?.trust ?? 'sandboxed',
  };
  namesByConfig.set(workspaces, names);
  return names;
}
