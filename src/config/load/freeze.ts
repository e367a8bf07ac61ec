import type { DeepReadonly } from '../schema/schema.ts';

/**
 * A frozen copy, all the way down. Its maps have no prototype, so that looking up a name that came from
 * outside, such as `constructor`, finds only what the operator wrote.
 */
export function frozenCopy<T>(value: T): DeepReadonly<T> {
  if (Array.isArray(value)) return Object.freeze(value.map(frozenCopy)) as DeepReadonly<T>;
  if (typeof value !== 'object' || value === null) return value as DeepReadonly<T>;
  const copy: Record<string, unknown> = Object.create(null);
  for (const [key, inner] of Object.entries(value)) copy[key] = frozenCopy(inner);
  return Object.freeze(copy) as DeepReadonly<T>;
}
