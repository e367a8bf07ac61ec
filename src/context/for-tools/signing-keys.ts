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

export interface SigningKey {
  readonly kid: string;
  readonly key: KeyObject;
}

/** The keys that contexts are signed with: made on first start, renewed with an overlap, never shown. */
export interface SigningKeys {
  current(): SigningKey;
  /** The public keys as a JWK Set: those that sign, those that signed lately, and the one that will sign next. */
  jwks(): string;
  /** Where the same can be read by whoever runs for long. */
  readonly jwksFile: string;
  /** What this gateway is called by those it signs for, as long as it keeps its secret. */
  readonly name: string;
  /** What pseudonyms are made with; it stays when keys change, or every pseudonym would. */
  readonly pseudonymSecret: Buffer;
  /** Looks whether it is time for a new key, and whether another process has made one. */
  tend(): Promise<void>;
  close(): void;
}

interface StoredKey {
  readonly kid: string;
  readonly d: string;
  readonly x: string;
  readonly signsFrom: number;
}

interface Stored {
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
const tendEveryMs = minute;

export async function openSigningKeys(folder: string, now: () => number = Date.now): Promise<SigningKeys> {
  makePrivateFolder(folder);
  const file = join(folder, 'signing.json');
  // Apart from what is secret, and in a folder of its own: a sandbox is shown the folder, and so each new file in it.
  const jwksFile = join(folder, 'public', 'jwks.json');
  makePrivateFolder(dirname(jwksFile));
  // Looked at before the file is read: what is written in between is then seen as new, not as known.
  let seenAt = modifiedAt(file);
  let stored = await withLock(file, () => {
    const kept = load(file);
    if (kept === undefined) return save(file, jwksFile, firstKeys(now()));
    // Whoever outlives a key reads the next one there, so it must not be missing or old.
    if (textOf(jwksFile) !== jwksOf(kept)) writeAtomically(jwksFile, jwksOf(kept), 0o644);
    return kept;
  });
  let live = stored.keys.map(opened);
  let set = jwksOf(stored);

  function take(next: Stored): void {
    stored = next;
    live = next.keys.map(opened);
    set = jwksOf(next);
  }

  function needsRenewal({ keys }: Stored): boolean {
    const newest = keys.at(-1);
    return newest === undefined || now() >= newest.signsFrom + renewAfterMs - announceMs;
  }

  async function tend(): Promise<void> {
    const writtenAt = modifiedAt(file);
    if (writtenAt !== seenAt) take(load(file) ?? stored);
    seenAt = writtenAt;
    if (!needsRenewal(stored) && withoutRetired(stored, now()) === stored) return;
    // Of several processes on this folder one makes the key, and the others read it.
    const next = await withLock(file, () => {
      const found = load(file) ?? stored;
      const kept = withoutRetired(found, now());
      if (needsRenewal(kept))
        return save(file, jwksFile, { ...kept, keys: [...kept.keys, freshKey(now() + announceMs)] });
      return kept === found ? found : save(file, jwksFile, kept);
    });
    take(next);
  }

  const timer = setInterval(() => void tend().catch(() => {}), tendEveryMs).unref();
  await tend();

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
    tend,
    close: () => clearInterval(timer),
  };
}

/** For an environment: the keys, and where a process that outlives them finds the next. */
export function inlineKeys({ jwks, jwksFile }: SigningKeys, source = jwksFile): string {
  return `${jwks().slice(0, -1)},"source":${JSON.stringify(source)}}`;
}

function firstKeys(at: number): Stored {
  return { version: 1, pseudonymSecret: randomBytes(32).toString('base64url'), keys: [freshKey(at)] };
}

/** A key whose last tokens have long expired goes, with its private half; the same object where there is none. */
function withoutRetired(stored: Stored, at: number): Stored {
  const keys = stored.keys.filter((_, index) => {
    const successor = stored.keys[index + 1];
    return successor === undefined || at < successor.signsFrom + keepMs;
  });
  return keys.length === stored.keys.length ? stored : { ...stored, keys };
}

/**
 * Both halves are the last 32 bytes of their DER forms (RFC 8410). Node can wait for itself for ever when a pair is
 * exported as a JWK while the job that made it is collected.
 */
function freshKey(signsFrom: number): StoredKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519', {
    privateKeyEncoding: { type: 'pkcs8', format: 'der' },
    publicKeyEncoding: { type: 'spki', format: 'der' },
  });
  const [d, x] = [privateKey, publicKey].map((bytes) => bytes.subarray(-32).toString('base64url')) as [string, string];
  return { kid: kidOf(x), d, x, signsFrom };
}

/** RFC 7638: the members that make the key, in this order. */
function kidOf(x: string): string {
  return createHash('sha256').update(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`).digest('base64url');
}

/** What does not fit together would sign what nobody can verify. */
function isWhole(stored: StoredKey): boolean {
  const { x } = createPublicKey(opened(stored).key).export({ format: 'jwk' });
  return stored.x === x && stored.kid === kidOf(stored.x) && Number.isFinite(stored.signsFrom);
}

function opened({ kid, d, x, signsFrom }: StoredKey): SigningKey & { readonly signsFrom: number } {
  return { kid, key: createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' }), signsFrom };
}

function jwksOf({ keys }: Stored): string {
  return JSON.stringify({
    keys: keys.map(({ kid, x }) => ({ kty: 'OKP', crv: 'Ed25519', x, kid, use: 'sig', alg: 'EdDSA' })),
  });
}

/** The public half first: a key that is announced and never used harms nobody, one that signs unannounced does. */
function save(file: string, jwksFile: string, stored: Stored): Stored {
  writeAtomically(jwksFile, jwksOf(stored), 0o644);
  writeAtomically(file, JSON.stringify(stored));
  return stored;
}

function load(file: string): Stored | undefined {
  let text: string;
  try {
    const { mode, uid } = lstatSync(file);
    const others = (mode & 0o077) !== 0 || (process.getuid !== undefined && uid !== process.getuid());
    if (others) throw unusable('others may read or write it, so what it signs proves nothing');
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const stored = JSON.parse(text) as Stored;
    if (stored.version !== 1 || stored.keys.length === 0 || stored.pseudonymSecret.length < 43) throw new Error();
    if (!stored.keys.every(isWhole)) throw new Error();
    return stored;
  } catch {
    throw unusable('it is not what was written there');
  }
}

function unusable(why: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `The file of signing keys in the data directory cannot be used: ${why}.`,
    hint: 'Remove it to have new keys made; whoever verifies contexts has to learn them.',
  });
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

function modifiedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}
