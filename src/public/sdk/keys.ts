import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { calculateJwkThumbprint, createRemoteJWKSet, importJWK } from 'jose';
import { isObject } from './call.ts';
import { Refusal } from './context.ts';

/** What verifies a signature, by `kid`. */
type KeySet = ReadonlyMap<string, Awaited<ReturnType<typeof importJWK>>>;

const maxKeys = 32;

/** A JWKS as an object, as text, as the path of a file (`/…` or `file:…`), or as an http(s) address. */
export type KeySource = string | { readonly keys: readonly object[] };

type Key = KeySet extends ReadonlyMap<string, infer K> ? K : never;
type FindKey = (kid: string) => Promise<Key | undefined>;

/** An unknown kid may be a new key; asking again at each forged one would be a way to keep us busy. */
const betweenReads = { file: 1_000, address: 15_000 };
const afterFailure = 1_000;
/** After this long a key that was withdrawn is gone even if nobody used a new one. */
const maxAge = 60_000;

const byText = new Map<string, FindKey>();
const byObject = new WeakMap<object, FindKey>();
const maxSources = 64;

/** Key sets are kept per process: servers are often built anew for each request. */
export function keysFrom(source: KeySource): FindKey {
  if (typeof source !== 'string') {
    const known = byObject.get(source) ?? fixed(() => readKeySet(source));
    byObject.set(source, known);
    return known;
  }
  const known = byText.get(source) ?? open(source.trim());
  if (byText.size >= maxSources && !byText.has(source)) byText.clear();
  byText.set(source, known);
  return known;
}

function open(source: string): FindKey {
  if (source.startsWith('/') || source.startsWith('file:')) return fromFile(source);
  if (/^https?:\/\//i.test(source)) return fromAddress(source);
  const newer = newerKeysOf(source);
  const given = fixed(() => parseKeySet(source));
  return newer === undefined ? given : async (kid) => (await given(kid)) ?? (await newer(kid).catch(() => undefined));
}

/** Ambit puts beside the keys where a process that outlives them finds the next. */
function newerKeysOf(text: string): FindKey | undefined {
  try {
    const source = (JSON.parse(text) as { readonly source?: unknown }).source;
    return typeof source === 'string' && source.startsWith('/') ? fromFile(source) : undefined;
  } catch {
    return undefined;
  }
}

function fixed(read: () => Promise<KeySet>): FindKey {
  let reading: Promise<KeySet> | undefined;
  return async (kid) => {
    reading ??= read();
    return (await reading).get(kid);
  };
}

function fromFile(source: string): FindKey {
  return rereading(async () => {
    const path = source.startsWith('file:') ? fileURLToPath(source) : source;
    return parseKeySet(await readFile(path, 'utf8'));
  }, betweenReads.file);
}

function fromAddress(source: string): FindKey {
  const remote = URL.canParse(source) ? createRemoteJWKSet(new URL(source)) : undefined;
  return rereading(async () => {
    if (remote === undefined) throw new Refusal('KEYS_UNUSABLE', 'The address of the keys is not one.');
    await remote.reload();
    return readKeySet(remote.jwks());
  }, betweenReads.address);
}

/** Reads when there is nothing yet, when what there is has become old, and for a kid that it does not hold. */
function rereading(read: () => Promise<KeySet>, pause: number): FindKey {
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
      // A file that is being replaced, an address that is away for a moment: what was known goes on holding.
      problem = error;
    }
  }

  return async (kid) => {
    const age = () => performance.now() - readAt;
    const wanted = age() > maxAge || (!keys?.has(kid) && age() > (problem === undefined ? pause : afterFailure));
    if (wanted)
      reading ??= refresh().finally(() => {
        reading = undefined;
      });
    await reading;
    if (keys === undefined) throw unusable(problem);
    return keys.get(kid);
  };
}

function unusable(problem: unknown): Refusal {
  if (problem instanceof Refusal) return problem;
  const why = problem instanceof Error ? ((problem as NodeJS.ErrnoException).code ?? problem.message) : String(problem);
  return new Refusal('KEYS_UNUSABLE', `The keys could not be read (${why}).`);
}

/** Public Ed25519 keys out of a JWKS; whatever else it holds cannot have signed a context. */
async function readKeySet(jwks: unknown): Promise<KeySet> {
  const listed = isObject(jwks) ? jwks['keys'] : undefined;
  if (!Array.isArray(listed)) throw new Refusal('KEYS_UNUSABLE', 'The keys are not a JWKS: {"keys": […]} is expected.');
  const keys = new Map<string, Awaited<ReturnType<typeof importJWK>>>();
  for (const jwk of listed.slice(0, maxKeys)) {
    if (!isObject(jwk) || jwk['kty'] !== 'OKP' || jwk['crv'] !== 'Ed25519' || typeof jwk['x'] !== 'string') continue;
    if (jwk['use'] !== undefined && jwk['use'] !== 'sig') continue;
    // Only the public half is taken, whatever else was put there by mistake.
    const publicKey = { kty: 'OKP', crv: 'Ed25519', x: jwk['x'] };
    try {
      const kid = typeof jwk['kid'] === 'string' ? jwk['kid'] : await calculateJwkThumbprint(publicKey);
      if (!keys.has(kid)) keys.set(kid, await importJWK(publicKey, 'EdDSA'));
    } catch {
      // A key that cannot be read verifies nothing; the others still may.
    }
  }
  if (keys.size === 0) throw new Refusal('KEYS_UNUSABLE', 'The keys hold no Ed25519 public key.');
  return keys;
}

async function parseKeySet(text: string): Promise<KeySet> {
  let jwks: unknown;
  try {
    jwks = JSON.parse(text);
  } catch {
    throw new Refusal(
      'KEYS_UNUSABLE',
      'The keys are not JSON, nor a path that starts with "/", nor an http(s) address.',
    );
  }
  return readKeySet(jwks);
}
