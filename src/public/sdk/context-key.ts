import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { isObject } from './call.ts';
import { refuseContext } from './context.ts';

interface ContextKey {
  readonly kid: string;
  readonly key: KeyObject;
}

interface KeyFileState {
  known: ContextKey | undefined;
  problem: string | undefined;
  readAt: number;
}

/** The `kid` of every key of a process starts with this. No Ed25519 key of Ambit has such a `kid`. */
const kidPrefix = 'process-';
const maxFileBytes = 4096;
/** An unknown kid causes a read. The pause keeps forged ones from causing a read each. */
const minMsBetweenReads = 1_000;
const maxFiles = 64;
const files = new Map<string, KeyFileState>();

export function isProcessKeyId(kid: unknown): kid is string {
  return typeof kid === 'string' && kid.startsWith(kidPrefix);
}

/**
 * Finds the key of this process in its key file (`AMBIT_CONTEXT_KEY_FILE`). Undefined if the file has another key.
 * Throws if the file cannot be used.
 */
export function findContextKey(path: string, kid: string): KeyObject | undefined {
  let state = files.get(path);
  if (state?.known?.kid === kid) return state.known.key;
  if (state === undefined) {
    if (files.size >= maxFiles) files.clear();
    state = { known: undefined, problem: undefined, readAt: Number.NEGATIVE_INFINITY };
    files.set(path, state);
  }
  const now = performance.now();
  if (now - state.readAt >= minMsBetweenReads) {
    state.readAt = now;
    const read = readKeyFile(path);
    state.problem = typeof read === 'string' ? read : undefined;
    // A key that was read stays valid if the server removes the file.
    if (typeof read !== 'string') state.known = read;
  }
  if (state.known === undefined) {
    refuseContext('KEYS_UNUSABLE', `The key file that AMBIT_CONTEXT_KEY_FILE names cannot be used: ${state.problem}.`);
  }
  return state.known.kid === kid ? state.known.key : undefined;
}

/** Checks the HMAC-SHA256 of a text, in constant time. Both are ASCII; the signature is base64url. */
export function hasValidHmac(text: string, signature: string, key: KeyObject): boolean {
  const expected = createHmac('sha256', key).update(text, 'latin1').digest('base64url');
  return (
    signature.length === expected.length &&
    timingSafeEqual(Buffer.from(signature, 'latin1'), Buffer.from(expected, 'latin1'))
  );
}

/** Reads a key file. Returns the reason as text if it cannot be used. */
function readKeyFile(path: string): ContextKey | string {
  let descriptor: number;
  try {
    // Undefined on Windows.
    const flags = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
    descriptor = openSync(path, constants.O_RDONLY | flags);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ELOOP' ? 'it is a symbolic link' : `it cannot be opened (${code ?? 'unknown error'})`;
  }
  try {
    const stats = fstatSync(descriptor);
    if (!stats.isFile()) return 'it is not a regular file';
    if (stats.size > maxFileBytes) return `it is larger than ${maxFileBytes} bytes`;
    if (process.platform !== 'win32' && (stats.mode & 0o077) !== 0) return 'other users can read or write it';
    return parseKey(readFileSync(descriptor, 'utf8')) ?? 'it contains no HS256 key of Ambit';
  } catch (error) {
    return `it cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`;
  } finally {
    closeSync(descriptor);
  }
}

function parseKey(text: string): ContextKey | undefined {
  let jwk: unknown;
  try {
    jwk = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isObject(jwk) || jwk['kty'] !== 'oct' || jwk['alg'] !== 'HS256' || jwk['use'] !== 'sig') return undefined;
  const { kid, k } = jwk;
  if (!isProcessKeyId(kid) || typeof k !== 'string' || !/^[A-Za-z0-9_-]{43,86}$/.test(k)) return undefined;
  return { kid, key: createSecretKey(k, 'base64url') };
}
