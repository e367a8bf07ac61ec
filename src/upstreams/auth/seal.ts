import { createCipheriv, createDecipheriv, createHash, type KeyObject, randomBytes } from 'node:crypto';
import { type CredentialTarget, credentialKey } from './credential-target.ts';

/** A stored document: readable facts, and encrypted secrets. */
export interface SealedFacts<F> {
  readonly facts: F;
  readonly keyId: string;
  readonly iv: string;
  readonly data: string;
}

export interface SealingKey {
  /** Identifies the key without revealing it. */
  readonly id: string;
  readonly secret: KeyObject;
}

/** A credential as it is stored: all but its value is readable. */
export interface SealedCredential {
  readonly target: CredentialTarget;
  readonly keyId: string;
  readonly setAt: number;
  readonly iv: Buffer;
  readonly data: Buffer;
}

const algorithm = 'aes-256-gcm';
const ivBytes = 12;
const tagBytes = 16;

export function sealingKeyId(secret: Buffer): string {
  return createHash('sha256').update('ambit credentials key ').update(secret).digest('hex').slice(0, 16);
}

/** Encrypts a text so that it can be opened only with the data that it is bound to. */
export function encryptText(value: string, { secret }: SealingKey, boundTo: Buffer): { iv: Buffer; data: Buffer } {
  const iv = randomBytes(ivBytes);
  const cipher = createCipheriv(algorithm, secret, iv, { authTagLength: tagBytes });
  cipher.setAAD(boundTo);
  return { iv, data: Buffer.concat([cipher.update(value, 'utf8'), cipher.final(), cipher.getAuthTag()]) };
}

/** Decrypts a text; undefined when the key, the binding or the data is another. */
export function decryptText(
  { iv, data }: Pick<SealedCredential, 'iv' | 'data'>,
  key: SealingKey,
  boundTo: Buffer,
): string | undefined {
  if (iv.length !== ivBytes || data.length <= tagBytes) return undefined;
  try {
    const decipher = createDecipheriv(algorithm, key.secret, iv, { authTagLength: tagBytes });
    decipher.setAAD(boundTo);
    decipher.setAuthTag(data.subarray(-tagBytes));
    return Buffer.concat([decipher.update(data.subarray(0, -tagBytes)), decipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}

/** Seals a credential as text for the store. It is bound to its target: under another key it cannot be opened. */
export function sealCredential(target: CredentialTarget, value: string, key: SealingKey, setAt: number): string {
  const { iv, data } = encryptText(value, key, credentialBinding(target, setAt));
  const { userId, server, kind, name } = target;
  return JSON.stringify({
    v: 1,
    userId,
    server,
    kind,
    name,
    keyId: key.id,
    setAt,
    iv: iv.toString('base64'),
    data: data.toString('base64'),
  });
}

/** Reads a sealed credential; undefined when the text was not written under this key of the store. */
export function readSealedCredential(key: string, text: string): SealedCredential | undefined {
  try {
    const { v, userId, server, kind, name, keyId, setAt, iv, data } = JSON.parse(text) as Record<string, unknown>;
    if (v !== 1 || (kind !== 'env' && kind !== 'header') || typeof setAt !== 'number') return undefined;
    if (![userId, server, name, keyId, iv, data].every((part) => typeof part === 'string')) return undefined;
    const target = { userId, server, kind, name } as CredentialTarget;
    if (credentialKey(target) !== key) return undefined;
    const [vector, sealed] = [Buffer.from(iv as string, 'base64'), Buffer.from(data as string, 'base64')];
    if (vector.length !== ivBytes || sealed.length <= tagBytes) return undefined;
    return { target, keyId: keyId as string, setAt, iv: vector, data: sealed };
  } catch {
    return undefined;
  }
}

/** Opens a credential; undefined when it was sealed with another key, or was changed. */
export function unsealCredential(
  { target, keyId, setAt, iv, data }: SealedCredential,
  key: SealingKey,
): string | undefined {
  return keyId === key.id ? decryptText({ iv, data }, key, credentialBinding(target, setAt)) : undefined;
}

function credentialBinding({ userId, server, kind, name }: CredentialTarget, setAt: number): Buffer {
  return Buffer.from(JSON.stringify(['ambit credential', 1, userId, server, kind, name, setAt]));
}

/** Seals secrets so that they can be opened only with the data that they are bound to. */
export function sealFacts<F>(
  facts: F,
  secrets: unknown,
  key: SealingKey,
  boundTo: readonly (string | number)[],
): SealedFacts<F> {
  const { iv, data } = encryptText(JSON.stringify(secrets), key, Buffer.from(JSON.stringify(boundTo)));
  return { facts, keyId: key.id, iv: iv.toString('base64'), data: data.toString('base64') };
}

/** Opens the secrets; undefined when they were sealed with another key, or were changed. */
export function openSecrets<S>(
  sealed: SealedFacts<unknown>,
  key: SealingKey | undefined,
  boundTo: readonly (string | number)[],
): S | undefined {
  if (key === undefined || key.id !== sealed.keyId) return undefined;
  const parts = { iv: Buffer.from(sealed.iv, 'base64'), data: Buffer.from(sealed.data, 'base64') };
  const text = decryptText(parts, key, Buffer.from(JSON.stringify(boundTo)));
  return text === undefined ? undefined : (JSON.parse(text) as S);
}

export function readSealedFacts<F>(
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
