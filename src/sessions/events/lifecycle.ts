import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Change } from '../../stores/feed.ts';
import type { EndReason } from '../../stores/record.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type SessionView, sessionViewOf } from '../session.ts';

/** A step in the life of a session, as the feed of the store reported it. */
export interface LifecycleStep {
  readonly number: number;
  readonly type: 'created' | 'restricted' | 'expired' | 'ended' | 'evicted' | 'lost';
  readonly at: number;
  readonly sessionId: string | undefined;
  /** Why it was ended. */
  readonly reason: EndReason | undefined;
  /** Whether this process did it. */
  readonly here: boolean;
}

/** A step as it is sent to subscribers and webhooks. */
interface LifecycleEvent extends Pick<LifecycleStep, 'type'> {
  readonly at: string;
  readonly reason?: EndReason;
  /** The session as it is now, or was at its end; only its id when the store has forgotten it. */
  readonly session?: SessionView | { readonly id: string };
}

/**
 * The changes of all sessions of the store, whichever process makes them. The last steps are kept for subscribers that
 * were disconnected for a moment. A session is read only when an event about it is sent.
 */
export interface Lifecycle {
  /** The position after the event with this id; the newest one without an id. */
  positionAfter(eventId: string | undefined): number;
  /** The oldest step after this position; `lost` stands for all steps that are no longer kept. */
  next(position: number): LifecycleStep | undefined;
  idOf(step: LifecycleStep): string;
  describe(step: LifecycleStep): Promise<LifecycleEvent>;
  onStep(listener: (step: LifecycleStep) => void): () => void;
  close(): void;
}

export function createLifecycle(store: SessionStore, { kept = 1000 } = {}): Lifecycle {
  // Numbers start at 1 in each process, so ids name the process too.
  const runId = randomBytes(4).toString('hex');
  const steps: LifecycleStep[] = [];
  const listeners = new Set<(step: LifecycleStep) => void>();
  let lastNumber = 0;

  const stop = store.watch((change) => {
    const what = stepOf(change);
    if (what === undefined) return;
    const step: LifecycleStep = { number: ++lastNumber, at: Date.now(), ...what };
    steps.push(step);
    if (steps.length > kept) steps.shift();
    for (const listener of listeners) listener(step);
  });

  return {
    positionAfter(eventId) {
      if (eventId === undefined) return lastNumber;
      const [ofRun, digits = ''] = eventId.split('-');
      const number = /^\d{1,15}$/.test(digits) ? Number(digits) : -1;
      // The id is of another process or invalid: everything up to here may be missing.
      return ofRun === runId && number >= 0 && number <= lastNumber ? number : -1;
    },

    next(position) {
      const oldest = steps[0]?.number ?? lastNumber + 1;
      if (position + 1 < oldest) return { ...lostStep, number: oldest - 1, at: Date.now() };
      return steps[position + 1 - oldest];
    },

    idOf: ({ number }) => `${runId}-${number}`,

    async describe({ type, at, sessionId: id, reason }) {
      const event = { type, at: new Date(at).toISOString(), ...(reason === undefined ? {} : { reason }) };
      if (id === undefined) return event;
      const record = await store
        .get(id)
        .then(async (live) => live ?? (await store.remains(id))?.record)
        // The event is sent even when the session cannot be read.
        .catch(() => undefined);
      return { ...event, session: record === undefined ? { id } : sessionViewOf(record) };
    },

    onStep(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },

    close() {
      stop();
      listeners.clear();
    },
  };
}

/** Resolves when the feed has most likely delivered all earlier changes. */
export async function feedFlushed(store: SessionStore): Promise<void> {
  await store.ping().catch(() => {});
  await pause(store.capabilities.shared === 'network' ? 100 : 1);
}

const lostStep = { type: 'lost', sessionId: undefined, reason: undefined, here: false } as const;

function stepOf(change: Change): Omit<LifecycleStep, 'number' | 'at'> | undefined {
  if (change.kind === 'lost') return lostStep;
  if (change.kind === 'document' || change.kind === 'message' || change.kind === 'result') return undefined;
  const { id: sessionId, here } = change;
  if (change.kind === 'created') return { type: 'created', sessionId, reason: undefined, here };
  if (change.kind === 'changed') {
    return change.restricted ? { type: 'restricted', sessionId, reason: undefined, here } : undefined;
  }
  const { reason } = change;
  if (reason === 'expired') return { type: 'expired', sessionId, reason: undefined, here };
  return { type: reason === 'evicted' ? 'evicted' : 'ended', sessionId, reason, here };
}
