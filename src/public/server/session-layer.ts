import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Log } from '../../observability/log/log.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import { checkDraft } from '../../sessions/check-fields.ts';
import { lifetimeWithin } from '../../sessions/open-session.ts';
import { boundDraft, parentNotFound } from '../../sessions/parent-bounds.ts';
import { type Session, type SessionEndReason, sessionGoneError, type UnloadReason } from '../../sessions/session.ts';
import { createSessions, type Sessions } from '../../sessions/sessions.ts';
import { openTeam, type Team } from '../../sessions/teams/open-team.ts';
import type { CreateChild } from '../../sessions/tools/child-tools.ts';
import type { Toolset } from '../../sessions/tools/toolset.ts';
import { mostTrustIn, trustWithin } from '../../sessions/trust-bounds.ts';
import { createUserSessions, type UserSessions } from '../../sessions/user-sessions.ts';
import { createIgnoredWorkspaceLog, workspaceNotFoundError } from '../../sessions/workspace-choice.ts';
import { openMemoryStore } from '../../stores/memory/memory-store.ts';
import type { SessionStore } from '../../stores/store.ts';
import { createOwnTools } from '../../workspaces/tools/create-own-tools.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';
import { createHandlerCache, type HandlerCache } from './cache-result.ts';
import { createLayerFiles, type FindWorkspaces } from './declared-workspaces.ts';
import { toPublicId } from './gateway-sessions.ts';
import { openServerGovernance, type ServerGovernance } from './governance.ts';
import { createIdentifyCaller } from './identify-caller.ts';
import { createNamedSessions } from './named-sessions.ts';
import type { OpenInWorkspace, SessionLayer } from './resolved-session.ts';
import type { RunHook } from './safe-hooks.ts';
import { maxMetadataBytes, type ServerSessionsOptions, type ServerSettings, type SessionMetrics } from './settings.ts';
import { type StdioSessions, stdioSessions } from './transport-sessions.ts';

interface Listeners<A extends unknown[]> {
  add(listener: (...given: A) => void): () => void;
  notify(...given: A): void;
}

export interface OpenSessionLayer extends SessionLayer {
  readonly stdio: StdioSessions;
  readonly runningCalls: RunningCalls;
  readonly callCounts: CallCounts;
  readonly log: Log;
  readonly logIgnoredWorkspaceOnce: (session: Session, asked: string) => void;
  /** The tools beside those of the server itself. */
  readonly tools: Toolset | undefined;
  readonly governance: ServerGovernance | undefined;
  /** Absent where sessions have no tools to work together. */
  readonly team: Team | undefined;
  readonly cache: HandlerCache;
  close(): Promise<void>;
}

/** A session as listeners see it, with the same id that handlers see. */
export interface SessionFacts extends ActingSession {}

export interface SessionEvents {
  readonly opened: Listeners<[SessionFacts]>;
  readonly ended: Listeners<[SessionFacts, SessionEndReason]>;
  readonly restricted: Listeners<[SessionFacts]>;
}

/** Counts the tool calls of each session in this process. */
export interface CallCounts {
  add(sessionId: string): void;
  take(sessionId: string): number;
}

export function createSessionEvents(runHook: RunHook): SessionEvents {
  return {
    opened: createListeners('onOpened', runHook),
    ended: createListeners('onEnded', runHook),
    restricted: createListeners('onRestricted', runHook),
  };
}

interface LayerParts {
  readonly settings: ServerSettings;
  readonly findWorkspaces: FindWorkspaces;
  readonly events: SessionEvents;
  readonly log: Log;
  readonly metrics: Required<SessionMetrics>;
}

/** Opens everything that lives as long as the session layer. */
export async function openSessionLayer(options: ServerSessionsOptions, parts: LayerParts): Promise<OpenSessionLayer> {
  const { settings, findWorkspaces, events, log, metrics } = parts;
  const { storeDir } = settings;
  const store = await openLayerStore(options, settings, log);
  const quotas = dropUndefined(options.quotas ?? {});
  const now = options.context?.now;
  const sessions = createSessions({ store, bounds: settings.bounds, quotas: () => quotas, ...(now && { now }) });
  const team = options.tools === true ? openTeam({ store, sessions }) : undefined;
  const runningCalls = createRunningCalls();
  const callCounts = createCallCounts();
  const cache = createHandlerCache(metrics.cacheLookedUp, now);
  const governance =
    options.governance === undefined
      ? undefined
      : await openServerGovernance(options.governance, { store, storeDir, log, now });
  const files = options.files
    ? createLayerFiles(options.files, {
        store,
        storeDir,
        findWorkspaces,
        // Whoever can write to a root could put a link there.
        followsLinks: typeof options.workspaces !== 'string',
        log,
      })
    : undefined;
  sessions.onOpened((session) => {
    log.debug?.('session opened', {
      session: toPublicId(session),
      user: session.userId,
      trust: session.trustLevel,
      workspace: session.workspaceId,
    });
    metrics.sessionOpened(session.trustLevel);
    events.opened.notify(toSessionFacts(session));
  });
  sessions.onRestricted((session) => events.restricted.notify(toSessionFacts(session)));
  sessions.onEnded((session, reason) => {
    runningCalls.end(session.id, reason);
    const calls = callCounts.take(session.id);
    if (reason === 'unloaded') return;
    cache.forget(session.id);
    void files?.forget(session.id).catch(() => {});
    const seconds = Math.max(0, (now?.() ?? Date.now()) - session.createdAt) / 1000;
    log.debug?.('session ended', { session: toPublicId(session), user: session.userId, reason, seconds });
    metrics.sessionEnded(reason, seconds, calls);
    events.ended.notify(toSessionFacts(session), reason);
  });
  const openIn = createOpenIn(sessions, findWorkspaces);
  const stdio = stdioSessions({ sessions, settings, findWorkspaces, openIn });
  const hasOwnTools = options.tools === true || files !== undefined || governance !== undefined;
  return {
    settings,
    store,
    sessions,
    stdio,
    runningCalls,
    callCounts,
    cache,
    log,
    logIgnoredWorkspaceOnce: createIgnoredWorkspaceLog(log),
    tools: hasOwnTools
      ? createOwnTools({
          sessions,
          store,
          files,
          contextOf: governance?.contextOf,
          teamwork: team && { team, createChild: createLayerChild(sessions, openIn, settings) },
        })
      : undefined,
    governance,
    team,
    findWorkspaces,
    openIn,
    namedSessions: createNamedSessions(sessions, store),
    userSessions: createLayerUserSessions(sessions, openIn, log),
    identifyCaller: createIdentifyCaller(options, log),
    async close() {
      await governance?.close();
      await stdio.close();
      await files?.close();
      await team?.close();
      await sessions.close();
      cache.close();
      if (options.store === undefined) await store.close();
    },
  };
}

/** Opens the child of a session for `session_create`. Its token is only for the program that runs the server. */
function createLayerChild(sessions: Sessions, openIn: OpenInWorkspace, { bounds }: ServerSettings): CreateChild {
  const { ttlSeconds, maxLifetimeSeconds } = bounds;
  return async (given) => {
    const parent = await sessions.load(given.parentId);
    if (parent === undefined) throw parentNotFound();
    const draft = boundDraft(parent, given, { ttlSeconds });
    const { permissions } = checkDraft(draft, { maxLifetimeSeconds, metadataBytes: maxMetadataBytes });
    const { trustLevel = parent.trustLevel, userId = parent.userId } = draft;
    const lifetimeSeconds = lifetimeWithin(parent, maxLifetimeSeconds);
    const isAsked = draft.trustLevel !== undefined;
    return { record: (await openIn({ ...draft, permissions, userId, trustLevel, lifetimeSeconds }, isAsked)).record };
  };
}

/** A session that a user opens by calling has what the credential allows. */
function createLayerUserSessions(sessions: Sessions, openIn: OpenInWorkspace, log: Log): UserSessions {
  return createUserSessions({
    sessions,
    log,
    open: ({ userId = '', ...draft }, { ceiling } = {}) => {
      const trustLevel = ceiling === undefined ? 'sandboxed' : mostTrustIn(ceiling, draft.workspaceId);
      return openIn({ ...draft, userId, trustLevel });
    },
  });
}

/** Opens a session within the bounds of its workspace, which must exist if the server declares any. */
function createOpenIn(sessions: Sessions, findWorkspaces: FindWorkspaces): OpenInWorkspace {
  return async (draft, isAsked = false) => {
    const { workspaceId, userId, agentId, trustLevel, permissions = [] } = draft;
    if (workspaceId === undefined) return sessions.create(draft);
    const set = await findWorkspaces({ userId, agentId, trustLevel, permissions });
    if (set.get(workspaceId) === undefined && !set.isUndeclared) throw workspaceNotFoundError(workspaceId);
    const bounds = [{ max: set.trustOf(workspaceId), rule: `workspaces.${workspaceId}.trust` }];
    const within = trustWithin(bounds, isAsked ? trustLevel : undefined, trustLevel);
    return sessions.create({ ...draft, trustLevel: within });
  };
}

function dropUndefined<T extends object>(given: T): T {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as T;
}

function toSessionFacts(session: Session): SessionFacts {
  const { userId, agentId, workspaceId, trustLevel, permissions } = session;
  return { id: toPublicId(session), userId, agentId, workspaceId, trustLevel, permissions };
}

async function openLayerStore(
  options: ServerSessionsOptions,
  settings: ServerSettings,
  log: Log,
): Promise<SessionStore> {
  try {
    return (await options.store) ?? (await openOwnStore(settings.storeDir));
  } catch (cause) {
    log.warn('store cannot be opened', { error: String(cause) });
    throw isAmbitError(cause) ? cause : new AmbitError('STORE_UNAVAILABLE', { cause });
  }
}

async function openOwnStore(directory: string | undefined): Promise<SessionStore> {
  if (directory === undefined) return openMemoryStore();
  // The drivers are loaded only where they are used: most servers need no other store.
  const { openStore } = await import('../../stores/store-kinds.ts');
  return openStore({ kind: 'sqlite' }, directory);
}

function createListeners<A extends unknown[]>(name: string, runHook: RunHook): Listeners<A> {
  const all = new Set<(...given: A) => void>();
  return {
    add(listener) {
      const wrapped = (...given: A) => listener(...given);
      all.add(wrapped);
      return () => void all.delete(wrapped);
    },
    notify(...given) {
      for (const listener of [...all]) runHook(name, () => listener(...given));
    },
  };
}

function createCallCounts(): CallCounts {
  const counts = new Map<string, number>();
  return {
    add: (id) => void counts.set(id, (counts.get(id) ?? 0) + 1),
    take(id) {
      const count = counts.get(id) ?? 0;
      counts.delete(id);
      return count;
    },
  };
}

/**
 * Calls that wait for their handlers. When their session ends, their signal is aborted and they are answered at once,
 * whatever the handler does afterwards. A call that ends its own session still gets its answer.
 */
interface RunningCalls {
  /** Begins a call, which must be finished. `cancelled` is aborted when the client cancels it. */
  begin(sessionId: string, cancelled: AbortSignal | undefined): RunningCall;
  end(sessionId: string, reason: UnloadReason): void;
}

export interface RunningCall {
  /** Aborted when the session ends or the client cancels the call. */
  readonly signal: AbortSignal;
  /** Waits for work before or after the handler, until the session ends or the client cancels the call. */
  wait<R>(work: Promise<R>): Promise<R>;
  /** Runs the handler; throws if the session has ended or the call was cancelled since it began. */
  run<R>(call: ActiveCall, work: () => Promise<R>): Promise<R>;
  finish(): void;
}

interface CallEntry {
  readonly controller: AbortController;
  call?: ActiveCall;
  refuse?(error: Error): void;
}

function createRunningCalls(): RunningCalls {
  const entries = new Map<string, Set<CallEntry>>();
  return {
    begin(sessionId, cancelled) {
      const controller = new AbortController();
      const entry: CallEntry = { controller };
      const ofSession = entries.get(sessionId) ?? new Set();
      entries.set(sessionId, ofSession.add(entry));
      const signal = cancelled === undefined ? controller.signal : AbortSignal.any([controller.signal, cancelled]);
      return {
        signal,
        async wait(work) {
          work.catch(() => {});
          const findReason = () => (controller.signal.aborted ? controller.signal.reason : closedError());
          if (signal.aborted) throw findReason();
          let stop = () => {};
          const ended = new Promise<never>((_, reject) => {
            stop = () => reject(findReason());
          });
          signal.addEventListener('abort', stop, { once: true });
          try {
            return await Promise.race([work, ended]);
          } finally {
            signal.removeEventListener('abort', stop);
          }
        },
        async run(call, work) {
          if (controller.signal.aborted) throw controller.signal.reason;
          // Nobody reads the answer to a cancelled call.
          if (cancelled?.aborted) throw closedError();
          entry.call = call;
          const ended = new Promise<never>((_, reject) => {
            entry.refuse = reject;
          });
          return await Promise.race([work(), ended]);
        },
        finish() {
          ofSession.delete(entry);
          if (ofSession.size === 0 && entries.get(sessionId) === ofSession) entries.delete(sessionId);
        },
      };
    },
    end(sessionId, reason) {
      const error = reason === 'unloaded' || reason === 'closed' ? closedError() : sessionGoneError(reason);
      const current = activeCall.getStore();
      for (const { call, controller, refuse } of entries.get(sessionId) ?? []) {
        if (call !== undefined && call === current) continue;
        refuse?.(error);
        controller.abort(error);
      }
    },
  };
}

function closedError(): AmbitError {
  return new AmbitError('SESSION_ENDED', { what: 'The connection was closed.' });
}
