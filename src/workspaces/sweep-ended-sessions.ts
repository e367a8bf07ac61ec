import { setImmediate as turn } from 'node:timers/promises';
import type { Documents } from '../stores/documents.ts';

export interface SweepEndedOptions {
  readonly documents: Documents;
  /** A collection with one document per session, written after the session itself. */
  readonly collection: string;
  isEnded(sessionId: string): Promise<boolean>;
}

const pageSize = 100;
/** The number of documents per sweep; the next sweep continues there. */
const maxDocuments = 1000;
/** The pause after a sweep that found little. Ids are random, so little in one part means little in all. */
const restMs = 60_000;
const fewShare = 0.1;

/** Removes documents of ended sessions, and returns whether there were any. */
export function createEndedSessionSweep({
  documents,
  collection,
  isEnded: isGone,
}: SweepEndedOptions): () => Promise<boolean> {
  let after: string | undefined;
  let restUntil = 0;
  let running: Promise<boolean> | undefined;

  async function sweepPage(): Promise<{ looked: number; freed: number; next: string | null }> {
    const listed = await documents.list(collection, { limit: pageSize, ...(after === undefined ? {} : { after }) });
    const freed = await Promise.all(
      listed.documents.map(async ({ key, version }) => {
        if (!(await isGone(key))) return false;
        // A document written meanwhile is checked another time.
        return (await documents.delete(collection, key, { expectedVersion: version })).outcome === 'deleted';
      }),
    );
    return { looked: freed.length, freed: freed.filter(Boolean).length, next: listed.next };
  }

  async function sweep(): Promise<boolean> {
    let looked = 0;
    let freed = 0;
    // Continues where the last sweep stopped, and then from the beginning.
    for (let rounds = after === undefined ? 1 : 2; rounds > 0 && looked < maxDocuments; ) {
      const done = await sweepPage();
      looked += done.looked;
      freed += done.freed;
      after = done.next ?? undefined;
      if (done.next === null) rounds--;
      await turn();
    }
    if (freed <= looked * fewShare) restUntil = performance.now() + restMs;
    return freed > 0;
  }

  return async () => {
    if (running === undefined && performance.now() < restUntil) return false;
    running ??= sweep().finally(() => {
      running = undefined;
    });
    return running;
  };
}
