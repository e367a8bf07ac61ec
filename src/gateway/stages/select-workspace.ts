import { isAbsolute, resolve } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import { type AnnouncedWorkspace, contradictory, createWorkspaceReader } from '../../protocol/client-selection.ts';
import type { Message } from '../../protocol/message.ts';
import { isTrustAtMost } from '../../rules/trust-level.ts';
import { inWorkspace } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Exchange, SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

const slugsByPath = new WeakMap<Config['workspaces'], ReadonlyMap<string, readonly string[]>>();

/** Reads the announced workspace by the configured keys. Throws if the request announces more than one. */
type ReadAnnouncedWorkspace = (message: Message) => string | undefined;

export interface SelectOptions {
  readonly config: () => Config;
  readonly callers: Callers;
  readonly log: Log;
}

type SelectedSession = { readonly session: Session } | undefined;

const maxShownLength = 100;
const maxLoggedNames = 16;

/**
 * Puts the session into the workspace that its client announces. The client chooses among the workspaces that the session
 * may use. A workspace that the orchestrator has set stays, whatever the client says.
 */
export function selectWorkspace(options: SelectOptions): BeforeStage<SessionExchange<Exchange>, SelectedSession> {
  const { config, log } = options;
  const loggedNames = new WeakMap<Session, Set<string>>();
  const readAnnounced = createReadAnnouncedWorkspace(config);

  /** Logs each ignored workspace once per session, because clients repeat it with each call. */
  function logIgnoredWorkspaceOnce(session: Session, shown: string): void {
    const known = loggedNames.get(session) ?? new Set();
    loggedNames.set(session, known);
    if (known.has(shown) || known.size >= maxLoggedNames) return;
    known.add(shown);
    log.info('announced workspace ignored', {
      session: session.id,
      announced: shown,
      workspace: session.workspaceId,
    });
  }

  function applyWorkspace({ session, entry }: SessionExchange<Exchange>, asked: string): Session {
    const admitted = findAllowedWorkspace(config(), session, asked);
    const shown = asked.slice(0, maxShownLength);
    if (session.workspaceId !== undefined) {
      if (admitted === session.workspaceId) return session;
      logIgnoredWorkspaceOnce(session, shown);
      entry.ignoredWorkspace = shown;
      return session;
    }
    if (admitted === undefined) throw workspaceNotFoundError(shown);
    entry.workspaceId = admitted;
    return inWorkspace(session, admitted);
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
  if (findAllowedWorkspace(config(), session, workspaceId) === undefined) throw workspaceNotFoundError(workspaceId);
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
    const { workspaces: allowed = null, directIn } = principal.kind === 'user' ? principal.ceiling : {};
    if (allowed === null && directIn === undefined) return undefined;
    const asked = readAnnounced(message);
    // The session must be in the workspace where the credential allows more trust.
    if (allowed === null) return findSlugs(config().workspaces, asked ?? '').find((slug) => directIn?.includes(slug));
    if (asked === undefined) return allowed[0];
    const meant = findSlugs(config().workspaces, asked).find((slug) => allowed.includes(slug));
    if (meant === undefined) throw workspaceNotFoundError(asked.slice(0, 100));
    return meant;
  };
}

/** The error is the same for a forbidden and for a missing workspace. */
function workspaceNotFoundError(shown: string): AmbitError {
  return new AmbitError('WORKSPACE_NOT_FOUND', {
    what: `No workspace "${shown}" is available to this session.`,
    hint: 'Announce the slug or the absolute path of a workspace that this session may use, or announce none.',
  });
}

/**
 * Finds the workspace that a name means, if the session may use it. The name is a slug or the absolute path of a
 * configured workspace. Paths are compared as text, so that nobody learns which files exist.
 */
function findAllowedWorkspace({ workspaces }: Config, session: Session, name: string): string | undefined {
  return findSlugs(workspaces, name).find((slug) =>
    isTrustAtMost(session.trustLevel, workspaces[slug]?.trust ?? 'sandboxed'),
  );
}

function findSlugs(workspaces: Config['workspaces'], name: string): readonly string[] {
  if (Object.hasOwn(workspaces, name)) return [name];
  if (!isAbsolute(name)) return [];
  let byPath = slugsByPath.get(workspaces);
  if (byPath === undefined) {
    const found = new Map<string, string[]>();
    for (const [slug, { path }] of Object.entries(workspaces)) {
      if (path === undefined) continue;
      const normal = resolve(path);
      found.set(normal, [...(found.get(normal) ?? []), slug]);
    }
    byPath = found;
    slugsByPath.set(workspaces, found);
  }
  return byPath.get(resolve(name)) ?? [];
}
