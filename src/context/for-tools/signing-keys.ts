import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { lstatSync, readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';

interface SigningKey {
  readonly kid: string;
  readonly key: KeyObject;
}

/** Keys that sign contexts. They are created on first start, renewed with an overlap, and never shown. */
export interface SigningKeys {
  current(): SigningKey;
  /** Returns the public keys as a JWK Set: current, recent and next ones. */
  jwks(): string;
  /** A file with the same keys, for programs that run for long. */
  readonly jwksFile: string;
  /** The name of this gateway in signed contexts. It depends on the pseudonym secret. */
  readonly name: string;
  /** The secret of pseudonyms. It does not change with the keys, or every pseudonym would change. */
  readonly pseudonymSecret: Buffer;
  /** Creates a new key when it is time, and reads keys that another process created. */
  renewIfDue(): Promise<void>;
  close(): void;
}

interface StoredKey {
  readonly kid: string;
  readonly d: string;
  readonly x: string;
  readonly signsFrom: number;
}

interface KeyFile {
  readonly version: 1;
  readonly pseudonymSecret: string;
  /** The oldest first. */
  readonly keys: readonly StoredKey[];
}

const minute = 60_000;
const renewAfterMs = 30 * 24 * 60 * minute;
/** A verifier that reads the keys every ten minutes knows a new one before it signs. */
const announceMs = 15 * minute;
const keepMs = 60 * minute;
const renewCheckMs = minute;

export async function openSigningKeys(folder: string, now: () => number = Date.now): Promise<SigningKeys> {
  makePrivateFolder(folder);
  const file = join(folder, 'signing.json');
  // The public file has a folder of its own, because a sandbox gets the whole folder and thereby each new file in it.
  const jwksFile = join(folder, 'public', 'jwks.json');
  makePrivateFolder(dirname(jwksFile));
  // The time is read before the file, so that a write in between is noticed later.
  let seenAt = readModifiedTime(file);
  let stored = await withLock(file, () => {
    const kept = loadKeyFile(file);
    if (kept === undefined) {
      const pseudonymSecret = randomBytes(32).toString('base64url');
      return saveKeyFile(file, jwksFile, { version: 1, pseudonymSecret, keys: [createKey(now())] });
    }
    // Long-running programs read the next key there, so the file must be current.
    if (readTextIfPresent(jwksFile) !== writeJwks(kept)) writeAtomically(jwksFile, writeJwks(kept), 0o644);
    return kept;
  });
  let live = stored.keys.map(importKey);
  let set = writeJwks(stored);

  function useKeys(next: KeyFile): void {
    stored = next;
    live = next.keys.map(importKey);
    set = writeJwks(next);
  }

  function needsRenewal({ keys }: KeyFile): boolean {
    const newest = keys.at(-1);
    return newest === undefined || now() >= newest.signsFrom + renewAfterMs - announceMs;
  }

  async function renewIfDue(): Promise<void> {
    const writtenAt = readModifiedTime(file);
    if (writtenAt !== seenAt) useKeys(loadKeyFile(file) ?? stored);
    seenAt = writtenAt;
    if (!needsRenewal(stored) && dropRetiredKeys(stored, now()) === stored) return;
    // One of several processes creates the key, and the others read it.
    const next = await withLock(file, () => {
      const found = loadKeyFile(file) ?? stored;
      const kept = dropRetiredKeys(found, now());
      if (needsRenewal(kept))
        return saveKeyFile(file, jwksFile, { ...kept, keys: [...kept.keys, createKey(now() + announceMs)] });
      return kept === found ? found : saveKeyFile(file, jwksFile, kept);
    });
    useKeys(next);
  }

  const timer = setInterval(() => void renewIfDue().catch(() => {}), renewCheckMs).unref();
  await renewIfDue();

  return {
    jwksFile,
    name: `ambit:gateway:${createHash('sha256').update(`name ${stored.pseudonymSecret}`).digest('hex').slice(0, 16)}`,
    pseudonymSecret: Buffer.from(stored.pseudonymSecret, 'base64url'),
    current() {
      const at = now();
      for (let i = live.length - 1; i > 0; i--) {
        const candidate = live[i] as (typeof live)[number];
        if (candidate.signsFrom <= at) return candidate;
      }
      return live[0] as (typeof live)[number];
    },
    jwks: () => set,
    renewIfDue,
    close: () => clearInterval(timer),
  };
}

/** Creates a key that lives as long as this process, for programs without a data directory. */
export function createTemporaryKeys(): Pick<SigningKeys, 'current' | 'jwks' | 'close'> {
  const stored = createKey(0);
  const key = importKey(stored);
  const set = writeJwks({ version: 1, pseudonymSecret: '', keys: [stored] });
  return { current: () => key, jwks: () => set, close() {} };
}

/** Writes the keys for an environment variable, with the file where a long-running process finds the next ones. */
export function writeInlineKeys({ jwks, jwksFile }: SigningKeys, source = jwksFile): string {
  return `${jwks().slice(0, -1)},"source":${JSON.stringify(source)}}`;
}

/** Drops keys whose last tokens expired long ago. Returns the same object when there are none. */
function dropRetiredKeys(stored: KeyFile, at: number): KeyFile {
  const keys = stored.keys.filter((_, index) => {
    const successor = stored.keys[index + 1];
    return successor === undefined || at < successor.signsFrom + keepMs;
  });
  return keys.length === stored.keys.length ? stored : { ...stored, keys };
}

/**
 * Creates a key. Both halves are the last 32 bytes of their DER forms (RFC 8410). Exporting a pair as a JWK can hang
 * Node when the job that made it is garbage-collected meanwhile.
 */
function createKey(signsFrom: number): StoredKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519', {
    privateKeyEncoding: { type: 'pkcs8', format: 'der' },
    publicKeyEncoding: { type: 'spki', format: 'der' },
  });
  const [d, x] = [privateKey, publicKey].map((bytes) => bytes.subarray(-32).toString('base64url')) as [string, string];
  return { kid: computeKeyId(x), d, x, signsFrom };
}

/** Computes the thumbprint of RFC 7638, whose members have this order. */
function computeKeyId(x: string): string {
  return createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url');
}

/** Checks that the parts of a key belong together; otherwise nobody could verify its signatures. */
function isConsistent(stored: StoredKey): boolean {
  const { x } = createPublicKey(importKey(stored).key).export({ format: 'jwk' });
  return stored.x === x && stored.kid === computeKeyId(stored.x) && Number.isFinite(stored.signsFrom);
}

function importKey({ kid, d, x, signsFrom }: StoredKey): SigningKey & { readonly signsFrom: number } {
  return { kid, key: createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' }), signsFrom };
}

function writeJwks({ keys }: KeyFile): string {
  return JSON.stringify({
    keys: keys.map(({ kid, x }) => ({ kty: 'OKP', crv: 'Ed25519', x, kid, use: 'sig', alg: 'EdDSA' })),
  });
}

/**
 * Writes the public half first: an announced key that is never used does no harm, a signature by an unknown key does.
 */
function saveKeyFile(file: string, jwksFile: string, stored: KeyFile): KeyFile {
  writeAtomically(jwksFile, writeJwks(stored), 0o644);
  writeAtomically(file, JSON.stringify(stored));
  return stored;
}

function loadKeyFile(file: string): KeyFile | undefined {
  let text: string;
  try {
    const { mode, uid } = lstatSync(file);
    const others = (mode & 0o077) !== 0 || (process.getuid !== undefined && uid !== process.getuid());
    if (others) throw unusableError('other users can read or write it, so its signatures cannot be trusted');
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const stored = JSON.parse(text) as KeyFile;
    if (stored.version !== 1 || stored.keys.length === 0 || stored.pseudonymSecret.length < 43) throw new Error();
    if (!stored.keys.every(isConsistent)) throw new Error();
    return stored;
  } catch {
    throw unusableError('its content is damaged');
  }
}

function unusableError(why: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `The file of signing keys in the data directory cannot be used: ${why}.`,
    hint: 'Remove it to create new keys. Everyone who verifies contexts then needs the new public keys.',
  });
}

function readTextIfPresent(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function readModifiedTime(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
