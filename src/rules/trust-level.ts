const trustRank: Readonly<Record<TrustLevel, number>> = { sandboxed: 0, direct: 1 };
export type TrustLevel = 'direct' | 'sandboxed';

/** Every accepted spelling. A Map, since a plain object would also answer to `constructor`. */
const levelBySpelling: ReadonlyMap<unknown, TrustLevel> = new Map([
  ['direct', 'direct'],
  ['sandboxed', 'sandboxed'],
  ['trusted', 'direct'],
  ['untrusted', 'sandboxed'],
  ['sandbox', 'sandboxed'],
]);

export const trustSpellings = ['direct', 'sandboxed', 'trusted', 'untrusted', 'sandbox'] as const;

/** Returns the trust level of a spelling. Unknown values give undefined, never `direct`. */
export function normalizeTrust(value: unknown): TrustLevel | undefined {
  return levelBySpelling.get(value);
}

export function isTrustAtMost(level: TrustLevel, ceiling: TrustLevel): boolean {
  return trustRank[level] <= trustRank[ceiling];
}

/** Returns the lowest of several trust levels; an empty list means no trust. */
export function findLowestTrust(levels: readonly TrustLevel[]): TrustLevel {
  return levels.length > 0 && levels.every((level) => level === 'direct') ? 'direct' : 'sandboxed';
}
