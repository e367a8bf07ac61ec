import type { Journal } from './journal.ts';

/** The kinds of refusals at an entrance, before a request became a call. */
export type RefusalEvent =
  | 'credential'
  | 'admin'
  | 'sign-in'
  | 'host'
  | 'origin'
  | 'address'
  | 'method'
  | 'type'
  | 'length'
  | 'message'
  | 'envelope'
  | 'batch'
  | 'request'
  | 'connection'
  | 'overload'
  | 'control'
  | 'login'
  | 'call';

/** One refusal. A caller with a credential is named; for any other there is the address. */
export interface EntranceRefusal {
  readonly event: RefusalEvent;
  readonly entrance: 'http' | 'stdio' | 'control';
  readonly status?: number | undefined;
  readonly code?: string | undefined;
  readonly detail?: string | undefined;
  readonly method?: string | undefined;
  readonly path?: string | undefined;
  readonly address?: string | undefined;
  readonly by?: string | undefined;
  readonly consoleId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly userId?: string | undefined;
  readonly keyId?: string | undefined;
}

/** Creates the refusal of a call, or another request, before it was counted. */
export function createCallRefusal(
  { sessionId, userId, keyId }: Pick<EntranceRefusal, 'sessionId' | 'userId' | 'keyId'>,
  entrance: EntranceRefusal['entrance'],
  code: string,
): EntranceRefusal {
  return { event: 'call', entrance, code, sessionId, userId, keyId };
}

export interface RefusalJournal {
  record(refusal: EntranceRefusal): void;
  /** Whether the refusal gets a line, which the caller writes; otherwise it is counted. */
  admit(refusal: EntranceRefusal): boolean;
  /** Writes how many lines were omitted so far. */
  close(): void;
}

interface Bucket {
  lines: number;
  at: number;
}

const burst = 10;
const everyMs = 10_000;
/** Bucket of all callers without a credential: more addresses give no more lines. */
const strangersBurst = 50;
const strangersEveryMs = 500;
const maxBuckets = 1000;
const maxTextLength = 200;

/**
 * Creates the journal of refusals. Each refusal counts, but not each gets a line, since callers could fill the disk.
 * One kind and one caller get ten lines, then one every ten seconds. The number of omitted lines is recorded.
 */
export function createRefusalJournal(journal: Pick<Journal, 'record'>): RefusalJournal {
  const buckets = new Map<string, Bucket>();
  const omitted = new Map<string, { readonly refusal: EntranceRefusal; further: number }>();
  const strangers: Bucket = { lines: strangersBurst, at: performance.now() };
  let timer: NodeJS.Timeout | undefined;

  function findBucket(key: string): Bucket {
    const known = buckets.get(key);
    if (known !== undefined) return known;
    if (buckets.size >= maxBuckets) buckets.delete(buckets.keys().next().value as string);
    const fresh = { lines: burst, at: performance.now() };
    buckets.set(key, fresh);
    return fresh;
  }

  function hasRoom(bucket: Bucket, maxLines: number, every: number): boolean {
    const gained = Math.floor((performance.now() - bucket.at) / every);
    if (gained > 0) {
      bucket.lines = Math.min(maxLines, bucket.lines + gained);
      bucket.at += gained * every;
    }
    return bucket.lines > 0;
  }

  function mayWrite(key: string, isStranger: boolean): boolean {
    const own = findBucket(key);
    if (!hasRoom(own, burst, everyMs)) return false;
    if (isStranger && !hasRoom(strangers, strangersBurst, strangersEveryMs)) return false;
    own.lines--;
    if (isStranger) strangers.lines--;
    return true;
  }

  function admit(refusal: EntranceRefusal): boolean {
    const { event, code, address } = refusal;
    const who = refusal.sessionId ?? refusal.userId ?? refusal.consoleId ?? refusal.by;
    // Each code of calls has lines of its own: a frequent one must not hide another.
    const what = event === 'call' ? `call ${code}` : event;
    if (mayWrite(`${what} ${who ?? address}`, who === undefined)) return true;
    countOmitted(`${what} ${who}`, refusal);
    return false;
  }

  /** Counts an omitted line. Those of strangers are counted together, whatever their addresses. */
  function countOmitted(key: string, refusal: EntranceRefusal): void {
    const known = omitted.get(key);
    if (known !== undefined) known.further++;
    else omitted.set(key, { refusal, further: 1 });
    timer ??= setTimeout(writeCounts, everyMs).unref();
  }

  function writeCounts(): void {
    clearTimeout(timer);
    timer = undefined;
    for (const { refusal, further } of omitted.values()) {
      const { event, entrance, by, consoleId, sessionId, userId, keyId } = refusal;
      const code = event === 'call' ? refusal.code : undefined;
      journal.record({ kind: 'refusal', event, entrance, code, by, consoleId, sessionId, userId, keyId, further });
    }
    omitted.clear();
  }

  return {
    record(refusal) {
      const { detail, path, method } = refusal;
      if (!admit(refusal)) return;
      const texts = { detail: shortenText(detail), method: shortenText(method), path: shortenText(path) };
      journal.record({ kind: 'refusal', ...refusal, ...texts });
    },
    admit,
    close: writeCounts,
  };
}

function shortenText(text: string | undefined): string | undefined {
  return text === undefined || text.length <= maxTextLength ? text : `${text.slice(0, maxTextLength)}…`;
}
