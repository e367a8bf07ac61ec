import type { Change } from '../../stores/feed.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Session } from '../session.ts';

export interface WaitOptions<T> {
  /** The session that waits, and its user. */
  readonly by: Pick<Session, 'id' | 'userId'>;
  read(): Promise<T>;
  /** Tells whether what was read is worth an answer. */
  isDone(found: T): boolean;
  /** Tells whether to read again after this change. Everything is read again when changes may have been missed. */
  concerns(change: Change): boolean;
  readonly seconds: number;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignal | undefined;
  /** Called before it waits for the first time. */
  readonly onWait?: (() => void) | undefined;
}

/** Waits for other sessions on behalf of tool calls. */
export interface ChangeWaiter {
  /** Reads until there is something, or the time is over; then it returns what it read last. */
  readUntil<T>(options: WaitOptions<T>): Promise<T>;
  /** Answers all who wait at once, with what there is. */
  close(): void;
}

/** The longest time that a tool waits. Clients commonly give up after 60 s. */
export const maxWaitSeconds = 50;

/** The most waits of one session, of one user, and of all. Calls beyond are answered at once, with what there is. */
const maxWaits = { ofSession: 16, ofUser: 64, ofAll: 256 };

interface Waiting extends Pick<WaitOptions<unknown>, 'by' | 'concerns'> {
  wake(): void;
}

export function createChangeWaiter(store: Pick<SessionStore, 'watch'>): ChangeWaiter {
  const waiting = new Set<Waiting>();
  function mayWaitFor({ id, userId }: Pick<Session, 'id' | 'userId'>): boolean {
    const ofUser = [...waiting].filter(({ by }) => by.userId === userId);
    const ofSession = ofUser.filter(({ by }) => by.id === id);
    return waiting.size < maxWaits.ofAll && ofUser.length < maxWaits.ofUser && ofSession.length < maxWaits.ofSession;
  }

  let closed = false;
  const stop = store.watch((change) => {
    for (const each of waiting) if (change.kind === 'lost' || each.concerns(change)) each.wake();
  });

  return {
    async readUntil({ by, read, isDone, concerns, seconds, signal, onWait }) {
      const until = performance.now() + seconds * 1000;
      let wake: () => void = () => {};
      let changed = false;
      const mayWait = seconds > 0 && mayWaitFor(by);
      let waited = false;
      const entry = {
        by,
        concerns,
        wake() {
          changed = true;
          wake();
        },
      };
      // Before the first look, so that no change between the look and the wait is missed.
      if (mayWait) waiting.add(entry);
      signal?.addEventListener('abort', entry.wake);
      try {
        for (;;) {
          changed = false;
          const found = await read();
          const leftMs = until - performance.now();
          if (!mayWait || isDone(found) || leftMs <= 0 || closed || signal?.aborted === true) return found;
          if (changed) continue;
          if (!waited) onWait?.();
          waited = true;
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, leftMs);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
          });
        }
      } finally {
        waiting.delete(entry);
        signal?.removeEventListener('abort', entry.wake);
      }
    },
    close() {
      closed = true;
      stop();
      for (const each of waiting) each.wake();
    },
  };
}
