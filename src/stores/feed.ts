import type { EndReason } from './record.ts';

/** A change to the stored data. `here` is true when it was made through this very store object. */
export type Change =
  | { readonly kind: 'created'; readonly id: string; readonly version: number; readonly here: boolean }
  | {
      readonly kind: 'changed';
      readonly id: string;
      readonly version: number;
      /** True when its limits became tighter; false for any other change. */
      readonly restricted: boolean;
      readonly here: boolean;
    }
  | { readonly kind: 'ended'; readonly id: string; readonly reason: EndReason | 'expired'; readonly here: boolean }
  /** A session got a message. */
  | { readonly kind: 'message'; readonly id: string; readonly here: boolean }
  /** A result was written for a session. */
  | { readonly kind: 'result'; readonly id: string; readonly here: boolean }
  | { readonly kind: 'document'; readonly collection: string; readonly key: string }
  /** Changes may have been missed: every cached session and document may be outdated. */
  | { readonly kind: 'lost' };

export interface ChangeFeed {
  publish(change: Change): void;
  watch(listener: (change: Change) => void): () => void;
  close(): void;
}

export function createChangeFeed(): ChangeFeed {
  const listeners = new Set<(change: Change) => void>();
  return {
    publish(change) {
      for (const listener of [...listeners]) {
        try {
          listener(change);
        } catch (error) {
          // An error of one listener must neither keep the change from the others nor fail the write.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    },
    watch(listener) {
      // A new function, so that a listener added twice is called twice and each registration ends by itself.
      const own = (change: Change) => listener(change);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    close: () => listeners.clear(),
  };
}
