import type { TrustLevel } from './trust-level.ts';

const rank: Readonly<Record<TrustLevel, number>> = { sandboxed: 0, direct: 1 };

export function isAtMost(level: TrustLevel, ceiling: TrustLevel): boolean {
  return rank[level] <= rank[ceiling];
}

/** The least trusting of several bounds; none at all means no trust. */
export function lowest(levels: readonly TrustLevel[]): TrustLevel {
  return levels.length > 0 && levels.every((level) => level === 'direct') ? 'direct' : 'sandboxed';
}
