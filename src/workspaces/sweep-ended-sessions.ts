import { setImmediate as nextTick } from 'node:timers/promises';
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
export function createEndedSessionSweep(options: SweepEndedOptions): () => Promise<boolean> {
  const { documents, collection, isEnded } = options;
  let after: string | undefined;
  let restUntil = 0;
  let running: Promise<boolean> | undefined;

  async function sweepPage(): Promise<{ checked: number; freed: number; next: string | null }> {
    const listed = await documents.list(collection, { limit: pageSize, ...(after === undefined ? {} : { after }) });
    const freed = await Promise.all(
      listed.documents.map(async ({ key, version }) => {
        if (!(await isEnded(key))) return false;
        // A document written meanwhile is checked another time.
        return (await documents.delete(collection, key, { expectedVersion: version })).outcome === 'deleted';
      }),
    );
    return { checked: freed.length, freed: freed.filter(Boolean).length, next: listed.next };
  }

  async function sweep(): Promise<boolean> {
    let checked = 0;
    let freed = 0;
    // Continues where the last sweep stopped, and then from the beginning.
    for (let rounds = after === undefined ? 1 : 2; rounds > 0 && checked < maxDocuments; ) {
      const done = await sweepPage();
      checked += done.checked;
      freed += done.freed;
      after = done.next ?? undefined;
      if (done.next === null) rounds--;
      await nextTick();
    }
    if (freed <= checked * fewShare) restUntil = performance.now() + restMs;
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
