import { decrypt, encrypt, type SealingKey } from '../seal.ts';

/** What lies in the store: facts that may be read there, and secrets that may not. */
export interface SealedFacts<F> {
  readonly facts: F;
  readonly keyId: string;
  readonly iv: string;
  readonly data: string;
}

/** The secrets can be opened only beside what they are bound to: moved to another place, they cannot. */
export function sealFacts<F>(
  facts: F,
  secrets: unknown,
  key: SealingKey,
  boundTo: readonly (string | number)[],
): SealedFacts<F> {
  const { iv, data } = encrypt(JSON.stringify(secrets), key, Buffer.from(JSON.stringify(boundTo)));
  return { facts, keyId: key.id, iv: iv.toString('base64'), data: data.toString('base64') };
}

/** Undefined when they were sealed with another key, or are not what was sealed. */
export function openSecrets<S>(
  sealed: SealedFacts<unknown>,
  key: SealingKey | undefined,
  boundTo: readonly (string | number)[],
): S | undefined {
  if (key === undefined || key.id !== sealed.keyId) return undefined;
  const parts = { iv: Buffer.from(sealed.iv, 'base64'), data: Buffer.from(sealed.data, 'base64') };
  const text = decrypt(parts, key, Buffer.from(JSON.stringify(boundTo)));
  return text === undefined ? undefined : (JSON.parse(text) as S);
}

export function readFacts<F>(
  text: string,
  isFacts: (facts: Record<string, unknown>) => boolean,
): SealedFacts<F> | undefined {
  try {
    const { facts, keyId, iv, data } = JSON.parse(text) as Record<string, unknown>;
    if (![keyId, iv, data].every((part) => typeof part === 'string')) return undefined;
    if (typeof facts !== 'object' || facts === null || !isFacts(facts as Record<string, unknown>)) return undefined;
    return { facts, keyId, iv, data } as SealedFacts<F>;
  } catch {
    return undefined;
  }
}
