import { AmbitError } from '../../errors.ts';
import { type CacheSharing, type PartitionSession, partitionOf } from '../../gateway/cache/call-cache.ts';
import { createResultCache } from '../../gateway/cache/result-cache.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { digestArguments, isObject } from '../sdk/call.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';

export interface CacheOptions {
  readonly ttlSeconds: number;
  /** The sessions that share a result: `session` (default) none, `user` those of the user, `workspace` those in the workspace. */
  readonly per?: CacheSharing | undefined;
  /** Tells apart several uses in one handler. */
  readonly key?: string | undefined;
}

const sharings: readonly CacheSharing[] = ['session', 'user', 'workspace'];
/** The requests whose name and arguments say all that a result can depend on. */
const cachedMethods: ReadonlySet<string | undefined> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** The results that handlers have cached. */
export interface HandlerCache {
  /** Lets the handler of a call use the cache. `scope` tells apart servers that share their sessions. */
  offerTo(call: ActiveCall, session: PartitionSession, scope: string): void;
  /** Drops the results of a session that has ended. */
  forget(sessionId: string): void;
  close(): void;
}

type ReadThrough = <T>(work: () => T | Promise<T>, options: CacheOptions) => Promise<T>;

const caches = new WeakMap<ActiveCall, ReadThrough>();

/**
 * Returns the cached result of this tool for these arguments, or runs `work` and caches its result, which must be JSON.
 * A result with `isError` is not cached. Only calls with the same trust level, permissions and workspace share a result,
 * and by default only calls of one session. Works in handlers of tools, prompts and resources of a server with
 * `withSessions()`.
 */
export async function cacheResult<T>(work: () => T | Promise<T>, options: CacheOptions): Promise<T> {
  const active = activeCall.getStore();
  const read = active === undefined ? undefined : caches.get(active);
  if (read === undefined) {
    throw new AmbitError('CONFIG_INVALID', {
      what: 'cacheResult() was called outside of a handler of withSessions().',
      hint: 'The author of the server must call it in the handler of a tool, prompt or resource.',
    });
  }
  const { ttlSeconds, per = 'session' } = options ?? {};
  if (!(ttlSeconds > 0))
    throw new AmbitError('REQUEST_INVALID', { what: '"ttlSeconds" is required and must be more than 0.' });
  if (!sharings.includes(per)) {
    throw new AmbitError('REQUEST_INVALID', { what: '"per" must be "session", "user" or "workspace".' });
  }
  return read(work, options);
}

export function createHandlerCache(onLookup: (found: boolean) => void, now?: () => number): HandlerCache {
  const cache = createResultCache(undefined, now);

  function createRead({ call, context }: ActiveCall, session: PartitionSession, scope: string): ReadThrough {
    const used = new Set<string>();
    let abort: Promise<undefined> | undefined;
    const aborted = () => (abort ??= waitForAbort(context.signal));
    return async <T>(work: () => T | Promise<T>, options: CacheOptions): Promise<T> => {
      const { ttlSeconds, per = 'session', key: use = '' } = options;
      // The second use would get the result of the first, or wait for it forever inside of it.
      if (used.has(use)) {
        throw new AmbitError('REQUEST_INVALID', {
          what: 'Each use of cacheResult() in a handler needs its own "key".',
        });
      }
      used.add(use);
      const { signal } = context;
      const digest = digestArguments(call.arguments);
      if (digest === undefined) return work();
      // Anonymous callers are several people.
      const sharing = per === 'user' && session.userId === anonymousUser ? 'session' : per;
      const { name, owner } = partitionOf(sharing, session, '');
      const key = sha256Hex(JSON.stringify([scope, call.method, call.name, digest, name, use]));
      // A flight that brings nothing is followed by that of the first who waited for it.
      for (let pending = cache.find(key); pending !== undefined; pending = cache.find(key)) {
        const found = pending instanceof Promise ? await Promise.race([pending, aborted()]) : pending;
        if (signal.aborted) throw signal.reason;
        if (found === undefined) continue;
        onLookup(true);
        return JSON.parse(found.bytes.toString()) as T;
      }
      onLookup(false);
      const working = (async () => work())();
      const loading = cache.load(key, owner, async () => {
        // Others who wait for the result start anew when this call is cancelled or its session ends.
        const result = await Promise.race([working, aborted()]);
        const text = signal.aborted ? undefined : JSON.stringify(result);
        if (text === undefined || (isObject(result) && result['isError'] === true)) return undefined;
        const kept = { bytes: Buffer.from(text), id: { start: 0, end: 0 }, status: undefined, from: '' };
        return { kept, ttlMs: ttlSeconds * 1000 };
      });
      const [result] = await Promise.all([working, loading]);
      return result;
    };
  }

  return {
    offerTo(call, session, scope) {
      if (cachedMethods.has(call.call.method)) caches.set(call, createRead(call, session, scope));
    },
    forget: cache.forget,
    close: cache.close,
  };
}

function waitForAbort(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
