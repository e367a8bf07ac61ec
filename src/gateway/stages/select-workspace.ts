import { isAbsolute, resolve } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import { type Announced, announcedBy, contradictory } from '../../protocol/announced.ts';
import type { Message } from '../../protocol/message.ts';
import { isAtMost } from '../../rules/bounds.ts';
import { inWorkspace } from '../../sessions/in-workspace.ts';
import type { Session } from '../../sessions/session.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

const slugsByPath = new WeakMap<Config['workspaces'], ReadonlyMap<string, readonly string[]>>();

/** What a request announces, by the keys that are configured now; throws when it announces more than one. */
type ReadAnnounced = (message: Message) => string | undefined;

export interface SelectOptions {
  readonly config: () => Config;
  readonly callers: Callers;
  readonly log: Log;
}

interface Placed {
  readonly session: Session;
}

const longestShown = 100;
const mostRemarks = 16;

/**
 * Puts the session into the workspace that its client announces. The client chooses among the workspaces that the session
 * may use. A workspace that the orchestrator has set stays, whatever the client says.
 */
export function selectWorkspace(options: SelectOptions): BeforeStage<InSession<Arrived>, Placed | undefined> {
  const { config, log } = options;
  const remarks = new WeakMap<Session, Set<string>>();
  const announced = createReadAnnounced(config);

  /** A client may repeat itself with each call; whoever runs Ambit is told once. */
  function remark(session: Session, shown: string): void {
    const known = remarks.get(session) ?? new Set();
    remarks.set(session, known);
    if (known.has(shown) || known.size >= mostRemarks) return;
    known.add(shown);
    log.info('announced workspace ignored', {
      session: session.id,
      announced: shown,
      workspace: session.workspaceId,
    });
  }

  function selected({ session, entry }: InSession<Arrived>, asked: string): Session {
    const admitted = admittedWorkspace(config(), session, asked);
    const shown = asked.slice(0, longestShown);
    if (session.workspaceId !== undefined) {
      if (admitted === session.workspaceId) return session;
      remark(session, shown);
      entry.ignoredWorkspace = shown;
      return session;
    }
    if (admitted === undefined) throw notAdmitted(shown);
    entry.workspaceId = admitted;
    return inWorkspace(session, admitted);
  }

  return {
    name: 'selectWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND'],
    before(exchange) {
      const { era, message } = exchange;
      if (era === 'handshake' && message.method !== 'initialize') return held(options, exchange);
      const asked = announced(message);
      return asked === undefined ? undefined : { session: selected(exchange, asked) };
    },
  };
}

/** Puts the session into the workspace in which its transport session was opened. It is for requests without a message. */
export function useTransportWorkspace(options: SelectOptions): BeforeStage<InSession, Placed | undefined> {
  return {
    name: 'useTransportWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND'],
    before: (exchange) => held(options, exchange),
  };
}

/** What was announced in the handshake holds for that client, as long as the workspace still admits its session. */
function held({ callers, config }: SelectOptions, exchange: InSession): Placed | undefined {
  const { session, transportId, entry } = exchange;
  const caller = transportId === undefined ? undefined : callers.get(transportId);
  const workspaceId = caller?.sessionId === session.id ? caller.workspaceId : undefined;
  if (workspaceId === undefined || session.workspaceId !== undefined) return undefined;
  if (admittedWorkspace(config(), session, workspaceId) === undefined) throw notAdmitted(workspaceId);
  entry.workspaceId = workspaceId;
  return { session: inWorkspace(session, workspaceId) };
}

function createReadAnnounced(config: () => Config): ReadAnnounced {
  let keys: readonly string[] = [];
  let read: (message: Message) => Announced = () => undefined;
  return function announced(message) {
    if (message.meta === undefined) return undefined;
    const { announceKeys } = config().context;
    if (announceKeys !== keys) {
      keys = announceKeys;
      read = announcedBy(announceKeys);
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
 * Where a session for this caller is to be opened: for a credential that may use only some workspaces the one that is
 * announced, else the first of them. Any other caller's session stands nowhere, and may be used in each.
 */
export function createWorkspaceMeant(
  config: () => Config,
): (principal: Principal, message: Message) => string | undefined {
  const announced = createReadAnnounced(config);
  return function workspaceMeant(principal, message) {
    const { workspaces: allowed = null, directIn } = principal.kind === 'user' ? principal.ceiling : {};
    if (allowed === null && directIn === undefined) return undefined;
    const asked = announced(message);
    // Where it may have more trust than elsewhere, its session has to stand there.
    if (allowed === null) return slugsNamed(config(), asked ?? '').find((slug) => directIn?.includes(slug));
    if (asked === undefined) return allowed[0];
    const meant = slugsNamed(config(), asked).find((slug) => allowed.includes(slug));
    if (meant === undefined) throw notAdmitted(asked.slice(0, 100));
    return meant;
  };
}

/** To the agent, a workspace it may not use and one that is not there look alike. */
function notAdmitted(shown: string): AmbitError {
  return new AmbitError('WORKSPACE_NOT_FOUND', {
    what: `No workspace "${shown}" is available to this session.`,
    hint: 'Announce the slug or the absolute path of a workspace that this session may use, or announce none.',
  });
}

/**
 * The workspace that a name means, if this session may work there. The name is a slug, or the absolute path of a
 * configured workspace: paths are compared as they are written, so that nobody learns from it which files exist.
 */
function admittedWorkspace({ workspaces }: Config, session: Session, name: string): string | undefined {
  return slugsFor(workspaces, name).find((slug) =>
    isAtMost(session.trustLevel, workspaces[slug]?.trust ?? 'sandboxed'),
  );
}

/** All that a name means, whoever may use them. */
function slugsNamed({ workspaces }: Config, name: string): readonly string[] {
  return slugsFor(workspaces, name);
}

function slugsFor(workspaces: Config['workspaces'], name: string): readonly string[] {
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
