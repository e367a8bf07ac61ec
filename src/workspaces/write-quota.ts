import { AmbitError } from '../errors.ts';
import type { Documents } from '../stores/documents.ts';
import { createSweepOfTheGone } from './sweep-ended-sessions.ts';

/** How much a session has written in its life, and how much it may. */
export interface WrittenSoFar {
  /**
   * Throws WORKSPACE_FULL where this many more bytes are too many, or where no more entries may be made. Else they are
   * taken for written until it is said how it went, so that many writes at once are no way round the bound.
   */
  hold(sessionId: string, bytes: number, limits: WriteLimits): Promise<Held>;
  forget(sessionId: string): Promise<void>;
  close(): Promise<void>;
}

export interface Held {
  /** It was written, and so many files and folders were made. */
  written(entries: number): void;
  /** Nothing was. After `written` it does nothing. */
  release(): void;
}

export interface WrittenSoFarOptions {
  readonly documents: Documents;
  isGone(sessionId: string): Promise<boolean>;
}

export interface WriteLimits {
  readonly sessionBytes: number;
  readonly sessionEntries: number;
}

interface Count {
  /** As the store has it. */
  bytes: number;
  entries: number;
  /** What it has not been told yet. */
  freshBytes: number;
  freshEntries: number;
  /** Of writes under way. */
  heldBytes: number;
  heldEntries: number;
  /** Its session is gone, and a write that was under way is not counted any more. */
  isForgotten: boolean;
}

const collection = 'files-written';
/** Counters may lag by a second; that is half of it. */
const settleMs = 500;
const mostHeld = 10_000;
/** How long those wait for whom the store had no room, and how many of them may find that there still is none. */
const unfitMs = 60_000;
const mostRefusals = 100;
const nothing = { freshBytes: 0, freshEntries: 0, heldBytes: 0, heldEntries: 0, isForgotten: false };

export function createWrittenSoFar({ documents, isGone }: WrittenSoFarOptions): WrittenSoFar {
  const counts = new Map<string, Promise<Count>>();
  const unsettled = new Map<string, Count>();
  /** Counted here alone until the store has room for them. */
  const unfit = new Map<string, Count>();
  const sweep = createSweepOfTheGone({ documents, collection, isGone });
  let timer: NodeJS.Timeout | undefined;
  let unfitTimer: NodeJS.Timeout | undefined;
  let settling: Promise<void> = Promise.resolve();

  function countOf(id: string): Promise<Count> {
    let count = counts.get(id);
    if (count === undefined) {
      count = documents.get(collection, id).then((found) => ({ ...read(found?.text), ...nothing }));
      count.catch(() => counts.delete(id));
      // Whoever has waited longest is read again when it writes again.
      for (const other of counts.keys()) {
        if (counts.size < mostHeld) break;
        if (!unsettled.has(other) && !unfit.has(other)) counts.delete(other);
      }
    }
    counts.delete(id);
    counts.set(id, count);
    return count;
  }

  /** False when there is no room for it. */
  async function settle(id: string, count: Count): Promise<boolean> {
    const { freshBytes, freshEntries } = count;
    for (;;) {
      const found = await documents.get(collection, id);
      const before = read(found?.text);
      const now = { bytes: before.bytes + freshBytes, entries: before.entries + freshEntries };
      const put = await documents.put(collection, id, JSON.stringify(now), { expectedVersion: found?.version ?? 0 });
      if (put.outcome === 'conflict') continue;
      if (put.outcome === 'written') {
        Object.assign(count, now);
        count.freshBytes -= freshBytes;
        count.freshEntries -= freshEntries;
        return true;
      }
      if (await isGone(id)) {
        counts.delete(id);
        return true;
      }
      if (!(await sweep())) return false;
    }
  }

  async function trySettle(id: string, count: Count): Promise<boolean> {
    unfit.delete(id);
    try {
      if (await settle(id, count)) return true;
      if (!count.isForgotten) unfit.set(id, count);
    } catch {
      // A store that is away is told later.
      if (!count.isForgotten) later(id, count);
    }
    return false;
  }

  async function settleAll(): Promise<void> {
    timer = undefined;
    const due = [...unsettled];
    unsettled.clear();
    for (const [id, count] of due) await trySettle(id, count);
    if (unfit.size > 0) unfitTimer ??= soon(settleUnfit, unfitMs);
  }

  async function settleUnfit(): Promise<void> {
    unfitTimer = undefined;
    let refusals = 0;
    for (const [id, count] of [...unfit]) {
      if (refusals === mostRefusals) break;
      if (!(await trySettle(id, count))) refusals++;
    }
    if (unfit.size > 0) unfitTimer ??= soon(settleUnfit, unfitMs);
  }

  function soon(work: () => Promise<void>, ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      settling = settling.then(work);
    }, ms).unref();
  }

  function later(id: string, count: Count): void {
    unsettled.set(id, count);
    timer ??= soon(settleAll, settleMs);
  }

  return {
    async hold(id, bytes, limits) {
      const count = await countOf(id);
      const { sessionBytes, sessionEntries } = limits;
      if (count.bytes + count.freshBytes + count.heldBytes + bytes > sessionBytes) throw full(sessionBytes, 'bytes');
      if (count.entries + count.freshEntries + count.heldEntries >= sessionEntries) {
        throw full(sessionEntries, 'entries');
      }
      count.heldBytes += bytes;
      count.heldEntries++;
      let isHeld = true;
      const release = () => {
        if (!isHeld) return;
        isHeld = false;
        count.heldBytes -= bytes;
        count.heldEntries--;
      };
      return {
        release,
        written(entries) {
          release();
          count.freshBytes += bytes;
          count.freshEntries += entries;
          if (!count.isForgotten) later(id, count);
        },
      };
    },

    async forget(id) {
      const count = await counts.get(id)?.catch(() => undefined);
      if (count !== undefined) count.isForgotten = true;
      counts.delete(id);
      unsettled.delete(id);
      unfit.delete(id);
      await settling;
      await documents.delete(collection, id).catch(() => {});
    },

    async close() {
      clearTimeout(timer);
      await settling;
      await settleAll();
      await settleUnfit();
      clearTimeout(unfitTimer);
      unfitTimer = undefined;
    },
  };
}

function read(text: string | undefined): { bytes: number; entries: number } {
  return text === undefined ? { bytes: 0, entries: 0 } : (JSON.parse(text) as { bytes: number; entries: number });
}

function full(limit: number, what: 'bytes' | 'entries'): AmbitError {
  return new AmbitError('WORKSPACE_FULL', {
    what:
      what === 'bytes'
        ? `The session may write ${limit} bytes in its life, and this would be more.`
        : `The session may make ${limit} files and folders in its life, and has made them.`,
    rule: `workspaces.*.files.${what === 'bytes' ? 'sessionBytes' : 'sessionEntries'}`,
    hint: 'Write less, or go on in another session; the operator can raise the bound.',
  });
}
