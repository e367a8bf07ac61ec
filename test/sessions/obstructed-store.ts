import type { SessionStore } from '../../src/stores/store.ts';
import { unavailableError } from '../../src/stores/store-lifecycle.ts';

type Method = 'get' | 'admit' | 'renew' | 'release';

/** A store that can be told to fail, or to keep its answers for a while. */
export interface ObstructedStore extends SessionStore {
  /** Methods that fail although nothing was done. */
  readonly failing: Set<Method>;
  /** Methods whose answers wait, in order, until they are let go. */
  readonly late: Set<Method>;
  /** Lets go of the answers that wait, and keeps no more; resolves when those who asked have got them. */
  letGo(): Promise<void>;
  /** How many answers wait. */
  readonly waiting: number;
  readonly asked: Method[];
}

export function createObstructedStore(store: SessionStore): ObstructedStore {
  const failing = new Set<Method>();
  const late = new Set<Method>();
  const asked: Method[] = [];
  let kept: (() => void)[] = [];

  function around<A extends unknown[], T>(name: Method, method: (...args: A) => Promise<T>) {
    return async (...args: A): Promise<T> => {
      asked.push(name);
      if (failing.has(name)) throw unavailableError('The store is away.');
      const answer = await method(...args);
      if (late.has(name)) await new Promise<void>((resolve) => void kept.push(resolve));
      return answer;
    };
  }

  return {
    ...store,
    get: around('get', store.get),
    admit: around('admit', store.admit),
    renew: around('renew', store.renew),
    release: around('release', store.release),
    failing,
    late,
    asked,
    get waiting() {
      return kept.length;
    },
    async letGo() {
      const going = kept;
      kept = [];
      late.clear();
      for (const resolve of going) resolve();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}
