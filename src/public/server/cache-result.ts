import { AmbitError } from '../../errors.ts';
import { type CacheSharing, type PartitionSession, partitionOf } from '../../gateway/cache/call-cache.ts';
import { createResultCache } from '../../gateway/cache/result-cache.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { digestArguments } from '../sdk/canonical-arguments.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';

export interface CacheOptions {
  readonly ttlSeconds: number;
  /** The sessions that share a result: `session` (default) none, `user` those of the user, `workspace` those in the workspace. */
  readonly per?: CacheSharing | undefined;
}

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
 * Only calls with the same trust level, permissions and workspace share a result, and by default only calls of one
 * session. Works in handlers of a server with `withSessions()`.
 */
export function cacheResult<T>(work: () => T | Promise<T>, options: CacheOptions): Promise<T> {
  const active = activeCall.getStore();
  const read = active === undefined ? undefined : caches.get(active);
  if (read === undefined) {
    throw new AmbitError('CONFIG_INVALID', {
      what: 'cacheResult() was called outside of a handler of withSessions().',
      hint: 'The author of the server must call it in a handler that was registered after withSessions().',
    });
  }
  if (!(options.ttlSeconds > 0)) throw new AmbitError('REQUEST_INVALID', { what: 'ttlSeconds must be more than 0.' });
  return read(work, options);
}

export function createHandlerCache(onLookup: (found: boolean) => void, now?: () => number): HandlerCache {
  const cache = createResultCache(undefined, now);

  function createRead({ call }: ActiveCall, session: PartitionSession, scope: string): ReadThrough {
    return async <T>(work: () => T | Promise<T>, { ttlSeconds, per = 'session' }: CacheOptions): Promise<T> => {
      const digest = digestArguments(call.arguments);
      if (digest === undefined) return work();
      // Anonymous callers are several people.
      const sharing = per === 'user' && session.userId === anonymousUser ? 'session' : per;
      const { name, owner } = partitionOf(sharing, session, '');
      const key = sha256Hex(JSON.stringify([scope, call.method, call.name, digest, name]));
      const found = await cache.find(key);
      onLookup(found !== undefined);
      if (found !== undefined) return JSON.parse(found.bytes.toString()) as T;
      let result: T | undefined;
      await cache.load(key, owner, async () => {
        result = await work();
        const text = JSON.stringify(result);
        if (text === undefined) return undefined;
        const kept = { bytes: Buffer.from(text), id: { start: 0, end: 0 }, status: undefined, from: '' };
        return { kept, ttlMs: ttlSeconds * 1000 };
      });
      return result as T;
    };
  }

  return {
    offerTo: (call, session, scope) => void caches.set(call, createRead(call, session, scope)),
    forget: cache.forget,
    close: cache.close,
  };
}
