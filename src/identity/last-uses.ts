import type { Documents } from '../stores/documents.ts';
import { everyDocument } from './every-document.ts';
import { useCollection } from './key-record.ts';

/** When each key was used last; written at most once a minute for each, and never waited for. */
export interface LastUses {
  note(id: string): void;
  of(id: string): Promise<number | undefined>;
  all(): Promise<ReadonlyMap<string, number>>;
  forget(id: string): Promise<void>;
}

const everyMs = 60_000;
const mostNoted = 10_000;

export function createLastUses(documents: Documents, now: () => number): LastUses {
  const noted = new Map<string, number>();

  return {
    note(id) {
      const at = now();
      if (at - (noted.get(id) ?? -Infinity) < everyMs) return;
      noted.delete(id);
      if (noted.size >= mostNoted) noted.delete(noted.keys().next().value as string);
      noted.set(id, at);
      // Where it cannot be written, the next use is.
      documents.put(useCollection, id, String(at)).catch(() => noted.delete(id));
    },
    async of(id) {
      const found = await documents.get(useCollection, id);
      return found && timeOf(found.text);
    },
    async all() {
      const found = await everyDocument(documents, useCollection);
      return new Map(found.flatMap(({ key, text }) => [[key, timeOf(text) ?? 0] as const]));
    },
    async forget(id) {
      noted.delete(id);
      await documents.delete(useCollection, id);
    },
  };
}

function timeOf(text: string): number | undefined {
  const at = Number(text);
  return Number.isSafeInteger(at) ? at : undefined;
}
