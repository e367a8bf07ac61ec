import type { FinalReply } from '../../protocol/channel.ts';
import { findMember, type JsonMember, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import { findIdMember, readMessage } from '../../protocol/message.ts';

interface CachingTerms {
  readonly ttlMs: number;
  /** True if the sessions that share the result may belong to several users. */
  readonly severalUsers: boolean;
  readonly from: string;
}

const oneCallMeta = ['io.modelcontextprotocol/related-task', 'io.modelcontextprotocol/subscriptionId'];

/** A result in the cache: its bytes as they were sent, and the position of its id. */
export interface CachedResult {
  readonly bytes: Buffer;
  readonly id: { readonly start: number; readonly end: number };
  readonly status: number | undefined;
  /** The exchange that fetched the result. */
  readonly from: string;
}

/** A result that may be cached, and for how long. Undefined if it may not. */
export type CacheableResult = { readonly kept: CachedResult; readonly ttlMs: number } | undefined;

export interface ResultCache {
  /**
   * Returns the cached result of this key, or the result of a call in progress. Undefined if there is neither or the
   * call failed: then the caller uses `load`.
   */
  find(key: string): Promise<CachedResult | undefined> | CachedResult | undefined;
  /** Makes a call for everyone who asks for this key meanwhile. */
  load(key: string, owner: string | undefined, call: () => Promise<CacheableResult>): Promise<void>;
  /** Drops all results of this owner, including those of calls in progress. */
  forget(owner: string): void;
  stats(): { readonly entries: number; readonly bytes: number };
  close(): void;
}

export interface CacheLimits {
  readonly bytes: number;
  readonly entries: number;
  /** A longer result is not cached. Callers that wait for it still get it. */
  readonly entryBytes: number;
}

const defaultLimits: CacheLimits = { bytes: 67_108_864, entries: 10_000, entryBytes: 4_194_304 };

interface CacheEntry extends CachedResult {
  readonly until: number;
  readonly owner: string | undefined;
  readonly cost: number;
}

interface PendingCall {
  readonly owner: string | undefined;
  readonly done: Promise<CachedResult | undefined>;
  forgotten: boolean;
}

/** The memory of an entry beside its bytes. */
const entryOverhead = 512;
const sweepMs = 30_000;

/** Creates a cache in memory. The least recently used entries are dropped first. */
export function createResultCache(bounds: CacheLimits = defaultLimits, now: () => number = Date.now): ResultCache {
  // Ordered by last use.
  const entries = new Map<string, CacheEntry>();
  const owned = new Map<string, Set<string>>();
  /** The calls that others wait for. `underWay` has all calls in progress. */
  const flights = new Map<string, PendingCall>();
  const underWay = new Set<PendingCall>();
  let bytes = 0;

  function dropEntry(key: string): void {
    const entry = entries.get(key);
    if (entry === undefined) return;
    entries.delete(key);
    bytes -= entry.cost;
    if (entry.owner === undefined) return;
    const keys = owned.get(entry.owner);
    keys?.delete(key);
    if (keys?.size === 0) owned.delete(entry.owner);
  }

  function keepResult(
    key: string,
    owner: string | undefined,
    { kept, ttlMs }: NonNullable<CacheableResult>,
  ): CachedResult {
    dropEntry(key);
    // Memory of its own: a slice, and a small buffer from Node's pool, would keep a larger one in memory.
    const copy = Buffer.allocUnsafeSlow(kept.bytes.length);
    kept.bytes.copy(copy);
    const own = { ...kept, bytes: copy };
    const cost = own.bytes.length + entryOverhead;
    if (ttlMs <= 0 || own.bytes.length > bounds.entryBytes) return own;
    entries.set(key, { ...own, until: now() + ttlMs, owner, cost });
    bytes += cost;
    if (owner !== undefined) owned.set(owner, (owned.get(owner) ?? new Set()).add(key));
    while (bytes > bounds.bytes || entries.size > bounds.entries) dropEntry(entries.keys().next().value as string);
    return own;
  }

  function dropExpired(): void {
    for (const [key, { until }] of entries) if (now() >= until) dropEntry(key);
  }

  const timer = setInterval(dropExpired, sweepMs).unref();

  return {
    find(key) {
      const entry = entries.get(key);
      if (entry !== undefined && now() < entry.until) {
        entries.delete(key);
        entries.set(key, entry);
        return entry;
      }
      if (entry !== undefined) dropEntry(key);
      return flights.get(key)?.done;
    },

    async load(key, owner, call) {
      let settle: (kept: CachedResult | undefined) => void = () => {};
      const done = new Promise<CachedResult | undefined>((resolve) => {
        settle = resolve;
      });
      const flight: PendingCall = { owner, done, forgotten: false };
      // If several callers retry after a failed call, others wait for the first.
      const leads = !flights.has(key);
      if (leads) flights.set(key, flight);
      underWay.add(flight);
      let kept: CachedResult | undefined;
      try {
        const brought = await call();
        if (brought !== undefined && !flight.forgotten) kept = keepResult(key, owner, brought);
      } finally {
        if (leads) flights.delete(key);
        underWay.delete(flight);
        settle(kept);
      }
    },

    forget(owner) {
      for (const key of [...(owned.get(owner) ?? [])]) dropEntry(key);
      for (const flight of underWay) if (flight.owner === owner) flight.forgotten = true;
    },

    stats: () => ({ entries: entries.size, bytes }),
    close() {
      clearInterval(timer);
      entries.clear();
      owned.clear();
      bytes = 0;
    },
  };
}

/**
 * Decides whether a reply may be cached, and for how long: it must be a complete result, no error, and contain nothing
 * that belongs to one call. The server can only narrow what the operator allows.
 */
export function readCacheable(reply: FinalReply, terms: CachingTerms): CacheableResult {
  if (reply.kind !== 'message') return undefined;
  const message = readMessage(reply.bytes);
  const { bytes, result } = message;
  const shape = result?.shape;
  if (shape === undefined) return undefined;
  const at = (key: string): JsonMember | undefined => findMember(shape, key);
  // The client may read the other one of two members with the same name.
  if (new Set(shape.members.map(({ key }) => key)).size < shape.members.length) return undefined;
  const error = at('isError');
  if (error !== undefined && readRawValue(bytes, error) !== 'false') return undefined;
  const type = at('resultType');
  if (type !== undefined && readStringValue(bytes, type) !== 'complete') return undefined;
  if (at('task') ?? at('requestState') ?? at('inputRequests')) return undefined;
  if (oneCallMeta.some((key) => findMember(message.meta, key) !== undefined)) return undefined;
  const scope = at('cacheScope');
  const allowed = terms.severalUsers ? ['public'] : ['public', 'private'];
  if (scope !== undefined && !allowed.includes(readStringValue(bytes, scope) ?? '')) return undefined;
  const ttlMs = Math.min(terms.ttlMs, readTtl(bytes, at('ttlMs')));
  if (!(ttlMs > 0)) return undefined;
  const { start, end } = findIdMember(message);
  return { kept: { bytes, id: { start, end }, status: reply.status, from: terms.from }, ttlMs };
}

function readTtl(bytes: Buffer, member: JsonMember | undefined): number {
  if (member === undefined) return Number.POSITIVE_INFINITY;
  const written = readRawValue(bytes, member);
  return /^\d+(?:\.\d+)?$/.test(written) ? Number(written) : 0;
}
