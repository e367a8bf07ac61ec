import type { EndReason } from './record.ts';

/** `here` says that it was done through this very store, opened here, and not by anybody else on the same data. */
export type Change =
  | { readonly kind: 'created'; readonly id: string; readonly version: number; readonly here: boolean }
  | {
      readonly kind: 'changed';
      readonly id: string;
      readonly version: number;
      /** Its bounds are tighter; otherwise something else about it is new. */
      readonly restricted: boolean;
      readonly here: boolean;
    }
  | { readonly kind: 'ended'; readonly id: string; readonly reason: EndReason | 'expired'; readonly here: boolean }
  | { readonly kind: 'document'; readonly collection: string; readonly key: string }
  /** Some changes may have been missed: whatever is held about any session or document may be old. */
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
          // One listener's fault must not cost the others the change, nor the writer its answer.
          queueMicrotask(() => {
            throw error;
          });
        }
      }
    },
    watch(listener) {
      // A function of its own, so that the same listener given twice is told twice and stopped once each.
      const own = (change: Change) => listener(change);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    close: () => listeners.clear(),
  };
}
