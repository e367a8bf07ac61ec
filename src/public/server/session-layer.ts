import type { Governance } from '../../context/for-models/governance.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { ActingSession } from '../../rules/session-base.ts';
import type { Session, SessionEndReason, UnloadReason } from '../../sessions/session.ts';
import { sessionGoneError } from '../../sessions/session.ts';
import { createSessions } from '../../sessions/sessions.ts';
import type { ToolResult } from '../../sessions/tools/toolset.ts';
import { openMemoryStore } from '../../stores/memory/memory-store.ts';
import type { SessionStore } from '../../stores/store.ts';
import { createOwnTools } from '../../workspaces/tools/create-own-tools.ts';
import { isObject } from '../sdk/call.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';
import { toPublicId } from './gateway-sessions.ts';
import { createOwnGovernance } from './governance.ts';
import { createNamedSessions } from './named-sessions.ts';
import type { ServerSessionsOptions } from './options.ts';
import type { ResolvedSession, SessionLayer } from './resolved-session.ts';
import type { ServerSettings } from './settings.ts';
import { type StdioSessions, stdioSessions } from './stdio-sessions.ts';

/** The session tools (`session_info` and others) beside the tools of the server itself. */
interface ServerSessionTools {
  has(name: string | undefined): name is string;
  call(name: string, args: unknown, session: Session, toolScope: ResolvedSession['toolScope']): Promise<ToolResult>;
  /** Adds the session tools to the last page of a `tools/list` result. */
  addToList(result: unknown): unknown;
}

/**
 * Calls that wait for their handlers. When their session ends they are answered at once, whatever the handler does
 * afterwards. A call that ends its own session still gets its answer.
 */
interface RunningCalls {
  run<R>(sessionId: string, call: ActiveCall, work: () => Promise<R>): Promise<R>;
  end(sessionId: string, reason: UnloadReason): void;
}

interface Listeners<A extends unknown[]> {
  add(listener: (...given: A) => void): () => void;
  notify(...given: A): void;
}

export interface OpenSessionLayer extends SessionLayer {
  readonly stdio: StdioSessions;
  readonly runningCalls: RunningCalls;
  readonly tools: ServerSessionTools | undefined;
  readonly governance: Governance | undefined;
  close(): Promise<void>;
}

/** A session as listeners see it, with the same id that handlers see. */
export interface SessionFacts extends ActingSession {}

export interface SessionEvents {
  readonly opened: Listeners<[SessionFacts]>;
  readonly ended: Listeners<[SessionFacts, SessionEndReason]>;
  readonly restricted: Listeners<[SessionFacts]>;
}

export function createSessionEvents(): SessionEvents {
  return { opened: createListeners(), ended: createListeners(), restricted: createListeners() };
}

/** Opens everything that lives as long as the session layer. */
export async function openSessionLayer(
  options: ServerSessionsOptions,
  settings: ServerSettings,
  events: SessionEvents,
): Promise<OpenSessionLayer> {
  const store = await openLayerStore(options, settings);
  const quotas = options.quotas ?? {};
  const now = options.context?.now;
  const sessions = createSessions({ store, bounds: settings.bounds, quotas: () => quotas, ...(now && { now }) });
  const runningCalls = createRunningCalls();
  sessions.onOpened((session) => events.opened.notify(toSessionFacts(session)));
  sessions.onRestricted((session) => events.restricted.notify(toSessionFacts(session)));
  sessions.onEnded((session, reason) => {
    runningCalls.end(session.id, reason);
    if (reason !== 'unloaded') events.ended.notify(toSessionFacts(session), reason);
  });
  const stdio = stdioSessions({ sessions, settings });
  const governance = options.governance === undefined ? undefined : createOwnGovernance(options.governance, store);
  return {
    settings,
    store,
    sessions,
    stdio,
    runningCalls,
    tools:
      options.tools === true
        ? createServerSessionTools({ sessions, store, contextOf: governance?.contextOf })
        : undefined,
    governance,
    namedSessions: createNamedSessions(sessions, store),
    principal: options.principal,
    async close() {
      await governance?.close();
      await stdio.close();
      await sessions.close();
      if (options.store === undefined) await store.close();
    },
  };
}

function toSessionFacts(session: Session): SessionFacts {
  const { userId, agentId, workspaceId, trustLevel, permissions } = session;
  return { id: toPublicId(session), userId, agentId, workspaceId, trustLevel, permissions };
}

async function openLayerStore(options: ServerSessionsOptions, settings: ServerSettings): Promise<SessionStore> {
  try {
    return (await options.store) ?? (await openOwnStore(settings.storeDir));
  } catch (cause) {
    throw isAmbitError(cause) ? cause : new AmbitError('STORE_UNAVAILABLE', { cause });
  }
}

async function openOwnStore(directory: string | undefined): Promise<SessionStore> {
  if (directory === undefined) return openMemoryStore();
  // The drivers are loaded only where they are used: most servers need no other store.
  const { openStore } = await import('../../stores/store-kinds.ts');
  return openStore({ kind: 'sqlite' }, directory);
}

function createListeners<A extends unknown[]>(): Listeners<A> {
  const all = new Set<(...given: A) => void>();
  return {
    add(listener) {
      const wrapped = (...given: A) => listener(...given);
      all.add(wrapped);
      return () => void all.delete(wrapped);
    },
    notify(...given) {
      for (const listener of [...all]) {
        try {
          listener(...given);
        } catch (error) {
          // The author sees the error of a listener, and the call is still answered.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    },
  };
}

function createRunningCalls(): RunningCalls {
  const calls = new Map<string, Map<ActiveCall, (error: Error) => void>>();
  return {
    async run(sessionId, call, work) {
      const ofSession = calls.get(sessionId) ?? new Map<ActiveCall, (error: Error) => void>();
      calls.set(sessionId, ofSession);
      const ended = new Promise<never>((_, reject) => void ofSession.set(call, reject));
      try {
        return await Promise.race([work(), ended]);
      } finally {
        ofSession.delete(call);
        if (ofSession.size === 0 && calls.get(sessionId) === ofSession) calls.delete(sessionId);
      }
    },
    end(sessionId, reason) {
      const error =
        reason === 'unloaded' || reason === 'closed'
          ? new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' })
          : sessionGoneError(reason);
      const current = activeCall.getStore();
      for (const [call, refuse] of calls.get(sessionId) ?? []) if (call !== current) refuse(error);
    },
  };
}

function createServerSessionTools(parts: Parameters<typeof createOwnTools>[0]): ServerSessionTools {
  const tools = createOwnTools(parts);
  return {
    has: (name): name is string => name !== undefined && tools.has(name),
    call: (name, args, session, toolScope) => {
      const { id, userId } = session;
      if (toolScope === 'user') return tools.call(name, args, { session, principal: { kind: 'local', userId } });
      return tools.call(name, args, { session, principal: { kind: 'session', sessionId: id, userId } });
    },
    addToList(result) {
      if (!isObject(result) || !Array.isArray(result['tools'])) return result;
      const theirs = result['tools'].filter((each) => !(isObject(each) && tools.has(String(each['name']))));
      return { ...result, tools: result['nextCursor'] === undefined ? [...theirs, ...tools.list()] : theirs };
    },
  };
}
