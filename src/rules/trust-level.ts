export type TrustLevel = 'direct' | 'sandboxed';

/** Every spelling that is understood. A Map, because a plain object would also answer to `constructor`. */
const levelOf: ReadonlyMap<unknown, TrustLevel> = new Map([
  ['direct', 'direct'],
  ['sandboxed', 'sandboxed'],
  ['trusted', 'direct'],
  ['untrusted', 'sandboxed'],
  ['sandbox', 'sandboxed'],
]);

export const trustSpellings = ['direct', 'sandboxed', 'trusted', 'untrusted', 'sandbox'] as const;

/** The trust level a value names. Whatever is not known gives undefined, never `direct`. */
export function normalizeTrust(value: unknown): TrustLevel | undefined {
  return levelOf.get(value);
}
