const trustRank: Readonly<Record<TrustLevel, number>> = { sandboxed: 0, direct: 1 };
export type TrustLevel = 'direct' | 'sandboxed';

/** Every spelling that is understood. A Map, because a plain object would also answer to `constructor`. */
const levelBySpelling: ReadonlyMap<unknown, TrustLevel> = new Map([
  ['direct', 'direct'],
  ['sandboxed', 'sandboxed'],
  ['trusted', 'direct'],
  ['untrusted', 'sandboxed'],
  ['sandbox', 'sandboxed'],
]);

export const trustSpellings = ['direct', 'sandboxed', 'trusted', 'untrusted', 'sandbox'] as const;

/** The trust level a value names. Whatever is not known gives undefined, never `direct`. */
export function normalizeTrust(value: unknown): TrustLevel | undefined {
  return levelBySpelling.get(value);
}

export function isAtMost(level: TrustLevel, ceiling: TrustLevel): boolean {
  return trustRank[level] <= trustRank[ceiling];
}

/** The least trusting of several bounds; none at all means no trust. */
export function lowest(levels: readonly TrustLevel[]): TrustLevel {
  return levels.length > 0 && levels.every((level) => level === 'direct') ? 'direct' : 'sandboxed';
}
