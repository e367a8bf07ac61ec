import type { Governance } from '../../context/for-models/governance.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { goneBecause } from '../../sessions/gone-because.ts';
import type { LeaveReason } from '../../sessions/session.ts';
import { createSessions } from '../../sessions/sessions.ts';
import { openMemoryStore } from '../../stores/memory/memory-store.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type Handling, store as handlings } from '../sdk/current-session.ts';
import { ownGovernance } from './governance.ts';
import { createNamedSessions } from './named-sessions.ts';
import type { ServerSessionsOptions, Settings } from './options.ts';
import type { House } from './resolved-session.ts';
import { type OwnTools, ownTools } from './session-tools.ts';
import { type EndReason, factsOf, type SessionFacts } from './session-views.ts';
import { aloneOnStdio, type StdioSessions } from './stdio-sessions.ts';

/**
 * Calls that wait for their handlers. When their session ends they are answered at once, and what they do afterwards
 * counts for nothing; but a call that ends its own session gets its answer.
 */
interface UnderWay {
  run<R>(sessionId: string, handling: Handling, work: () => Promise<R>): Promise<R>;
  end(sessionId: string, reason: LeaveReason): void;
}

interface Listeners<A extends unknown[]> {
  add(listener: (...given: A) => void): () => void;
  tell(...given: A): void;
}

export interface OpenHouse extends House {
  readonly stdio: StdioSessions;
  readonly underWay: UnderWay;
  readonly tools: OwnTools | undefined;
  readonly governance: Governance | undefined;
  close(): Promise<void>;
}

export interface SessionEvents {
  readonly opened: Listeners<[SessionFacts]>;
  readonly ended: Listeners<[SessionFacts, EndReason]>;
  readonly restricted: Listeners<[SessionFacts]>;
}

export function createEvents(): SessionEvents {
  return { opened: createListeners(), ended: createListeners(), restricted: createListeners() };
}

/** Everything that lives as long as the layer does. */
export async function openHouse(
  options: ServerSessionsOptions,
  settings: Settings,
  events: SessionEvents,
): Promise<OpenHouse> {
  const store = await storeOf(options, settings);
  const quotas = options.quotas ?? {};
  const now = options.context?.now;
  const sessions = createSessions({ store, bounds: settings.bounds, quotas: () => quotas, ...(now && { now }) });
  const underWay = createUnderWay();
  sessions.onOpened((session) => events.opened.tell(factsOf(session)));
  sessions.onRestricted((session) => events.restricted.tell(factsOf(session)));
  sessions.onEnded((session, reason) => {
    underWay.end(session.id, reason);
    if (reason !== 'unloaded') events.ended.tell(factsOf(session), reason);
  });
  const stdio = aloneOnStdio({ sessions, settings });
  const governance = options.governance === undefined ? undefined : ownGovernance(options.governance, store);
  return {
    settings,
    store,
    sessions,
    stdio,
    underWay,
    tools: options.tools === true ? ownTools({ sessions, store }, governance?.contextOf) : undefined,
    governance,
    named: createNamedSessions(sessions, store),
    principal: options.principal,
    async close() {
      await governance?.close();
      await stdio.close();
      await sessions.close();
      if (options.store === undefined) await store.close();
    },
  };
}

async function storeOf(options: ServerSessionsOptions, settings: Settings): Promise<SessionStore> {
  try {
    return (await options.store) ?? (await ownStore(settings.storeDir));
  } catch (cause) {
    throw isAmbitError(cause) ? cause : new AmbitError('STORE_UNAVAILABLE', { cause });
  }
}

async function ownStore(directory: string | undefined): Promise<SessionStore> {
  if (directory === undefined) return openMemoryStore();
  // Most servers need no other store: its drivers are loaded where they are used.
  const { openStore } = await import('../../stores/open-store.ts');
  return openStore({ kind: 'sqlite' }, directory);
}

function createListeners<A extends unknown[]>(): Listeners<A> {
  const all = new Set<(...given: A) => void>();
  return {
    add(listener) {
      const own = (...given: A) => listener(...given);
      all.add(own);
      return () => void all.delete(own);
    },
    tell(...given) {
      for (const listener of [...all]) {
        try {
          listener(...given);
        } catch (error) {
          // A listener's fault is its author's to see, and must not cost a call its answer.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    },
  };
}

function createUnderWay(): UnderWay {
  const calls = new Map<string, Map<Handling, (error: Error) => void>>();
  return {
    async run(sessionId, handling, work) {
      const ofSession = calls.get(sessionId) ?? new Map<Handling, (error: Error) => void>();
      calls.set(sessionId, ofSession);
      const ended = new Promise<never>((_, reject) => void ofSession.set(handling, reject));
      try {
        return await Promise.race([work(), ended]);
      } finally {
        ofSession.delete(handling);
        if (ofSession.size === 0 && calls.get(sessionId) === ofSession) calls.delete(sessionId);
      }
    },
    end(sessionId, reason) {
      const error =
        reason === 'unloaded' || reason === 'closed'
          ? new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' })
          : goneBecause(reason);
      const itself = handlings.getStore();
      for (const [handling, refuse] of calls.get(sessionId) ?? []) if (handling !== itself) refuse(error);
    },
  };
}
