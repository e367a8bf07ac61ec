import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { calculateJwkThumbprint, createRemoteJWKSet, importJWK } from 'jose';
import { isObject } from './call.ts';
import { ContextError, refuseContext } from './context.ts';

type Key = Awaited<ReturnType<typeof importJWK>>;

/** Public keys by `kid`. */
type KeySet = ReadonlyMap<string, Key>;

const maxKeys = 32;

/** A JWKS as an object, as text, as the path of a file (`/…` or `file:…`), or as an http(s) address. */
export type KeySource = string | { readonly keys: readonly object[] };

type FindKey = (kid: string) => Promise<Key | undefined>;

/** An unknown kid may be a new key. The pause keeps forged ones from causing a read each. */
const minMsBetweenReads = { file: 1_000, address: 15_000 };
const retryAfterFailureMs = 1_000;
/** The longest time that a withdrawn key is still accepted. */
const maxAgeMs = 60_000;

const findersByText = new Map<string, FindKey>();
const findersByObject = new WeakMap<object, FindKey>();
const maxSources = 64;

/** Returns the key finder of a source. Finders are cached per process: servers are often built anew for each request. */
export function getKeyFinder(source: KeySource): FindKey {
  if (typeof source !== 'string') {
    const known = findersByObject.get(source) ?? createFixedFinder(() => readKeySet(source));
    findersByObject.set(source, known);
    return known;
  }
  const known = findersByText.get(source) ?? createTextFinder(source.trim());
  if (findersByText.size >= maxSources && !findersByText.has(source)) findersByText.clear();
  findersByText.set(source, known);
  return known;
}

function createTextFinder(source: string): FindKey {
  if (source.startsWith('/') || source.startsWith('file:')) return createFileFinder(source);
  if (/^https?:\/\//i.test(source)) return createUrlFinder(source);
  const newer = findNewerKeys(source);
  const given = createFixedFinder(() => parseKeySet(source));
  return newer === undefined ? given : async (kid) => (await given(kid)) ?? (await newer(kid).catch(() => undefined));
}

/** Finds newer keys: Ambit writes beside the keys the path of the next ones, for processes that outlive them. */
function findNewerKeys(text: string): FindKey | undefined {
  try {
    const source = (JSON.parse(text) as { readonly source?: unknown }).source;
    return typeof source === 'string' && source.startsWith('/') ? createFileFinder(source) : undefined;
  } catch {
    return undefined;
  }
}

function createFixedFinder(read: () => Promise<KeySet>): FindKey {
  let reading: Promise<KeySet> | undefined;
  return async (kid) => {
    reading ??= read();
    return (await reading).get(kid);
  };
}

function createFileFinder(source: string): FindKey {
  return createRereadingFinder(async () => {
    const path = source.startsWith('file:') ? fileURLToPath(source) : source;
    return parseKeySet(await readFile(path, 'utf8'));
  }, minMsBetweenReads.file);
}

function createUrlFinder(source: string): FindKey {
  const remote = URL.canParse(source) ? createRemoteJWKSet(new URL(source)) : undefined;
  return createRereadingFinder(async () => {
    if (remote === undefined) refuseContext('KEYS_UNUSABLE', 'The address of the keys is not a valid URL.');
    await remote.reload();
    return readKeySet(remote.jwks());
  }, minMsBetweenReads.address);
}

/** Reads the keys when there are none yet, when they are old, and for an unknown kid. */
function createRereadingFinder(read: () => Promise<KeySet>, pause: number): FindKey {
  let keys: KeySet | undefined;
  let problem: unknown;
  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<void> | undefined;

  async function refresh(): Promise<void> {
    readAt = performance.now();
    try {
      keys = await read();
      problem = undefined;
    } catch (error) {
      // The known keys stay valid while a file is being replaced or an address cannot be reached.
      problem = error;
    }
  }

  return async (kid) => {
    const age = () => performance.now() - readAt;
    const wanted =
      age() > maxAgeMs || (!keys?.has(kid) && age() > (problem === undefined ? pause : retryAfterFailureMs));
    if (wanted)
      reading ??= refresh().finally(() => {
        reading = undefined;
      });
    await reading;
    if (keys === undefined) throw toContextError(problem);
    return keys.get(kid);
  };
}

function toContextError(problem: unknown): ContextError {
  if (problem instanceof ContextError) return problem;
  const why = problem instanceof Error ? ((problem as NodeJS.ErrnoException).code ?? problem.message) : String(problem);
  return new ContextError('KEYS_UNUSABLE', `The keys could not be read (${why}).`);
}

/** Reads the public Ed25519 keys of a JWKS. Other keys cannot have signed a context. */
async function readKeySet(jwks: unknown): Promise<KeySet> {
  const listed = isObject(jwks) ? jwks['keys'] : undefined;
  if (!Array.isArray(listed)) refuseContext('KEYS_UNUSABLE', 'The keys are not a JWKS: {"keys": […]} is expected.');
  const keys = new Map<string, Key>();
  for (const jwk of listed.slice(0, maxKeys)) {
    if (!isObject(jwk) || jwk['kty'] !== 'OKP' || jwk['crv'] !== 'Ed25519' || typeof jwk['x'] !== 'string') continue;
    if (jwk['use'] !== undefined && jwk['use'] !== 'sig') continue;
    // Only the public half is read, even if a private key was put there by mistake.
    const publicKey = { kty: 'OKP', crv: 'Ed25519', x: jwk['x'] };
    try {
      const kid = typeof jwk['kid'] === 'string' ? jwk['kid'] : await calculateJwkThumbprint(publicKey);
      if (!keys.has(kid)) keys.set(kid, await importJWK(publicKey, 'EdDSA'));
    } catch {
      // A key that cannot be read verifies nothing; the others still may.
    }
  }
  if (keys.size === 0) refuseContext('KEYS_UNUSABLE', 'The keys contain no Ed25519 public key.');
  return keys;
}

async function parseKeySet(text: string): Promise<KeySet> {
  let jwks: unknown;
  try {
    jwks = JSON.parse(text);
  } catch {
    refuseContext('KEYS_UNUSABLE', 'The keys must be JSON, a path that starts with "/", or an http(s) address.');
  }
  return readKeySet(jwks);
}

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
  if (now - state.readAt >= minMsBetweenReads.file) {
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
