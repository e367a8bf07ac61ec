import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { lstatSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { withLock } from '../../lib/fs/file-lock.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { Change } from '../../stores/feed.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type CredentialTarget, credentialKey, credentialKeyPrefix } from './credential-target.ts';

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

export interface CachedDocument<T> {
  readonly key: string;
  readonly version: number;
  /** Undefined when the stored text is not what was written. */
  readonly sealed: T | undefined;
}

/** A copy of one collection of the store, still sealed, at most a second old. */
export interface DocumentCache<T> {
  /** Throws STORE_UNAVAILABLE while the copy is not up to date. */
  listUnder(prefix: string): readonly CachedDocument<T>[];
  listAll(): readonly CachedDocument<T>[];
  /** Reads one document again; resolves when the listeners have handled the change. */
  refresh(key: string): Promise<void>;
  close(): void;
}

/** Hears of changed documents of one server. `concerns` is true for the users whose documents they are. */
export type AuthChangeListener = (concerns: MatchesUser, server: string) => Promise<void>;

/** True for the users and servers that a change is about. */
export type MatchesUser = (userId: string, server: string) => boolean;

const retryMs = 500;

export async function openDocumentCache<T>(
  store: SessionStore,
  collection: string,
  read: (key: string, text: string) => T | undefined,
  changed: (keyPrefix: string) => Promise<void>,
): Promise<DocumentCache<T>> {
  /** The documents by the prefix of their keys, up to the server. */
  const documents = new Map<string, Map<string, CachedDocument<T>>>();
  let isLoaded = false;
  let isClosed = false;
  let retry: NodeJS.Timeout | undefined;
  // One read at a time, so that an older answer never comes after a newer one.
  let queue: Promise<void> = Promise.resolve();

  function update(key: string, found: { readonly text: string; readonly version: number } | undefined): boolean {
    const prefix = prefixOf(key);
    const own = documents.get(prefix) ?? new Map<string, CachedDocument<T>>();
    if (own.get(key)?.version === found?.version) return false;
    if (found === undefined) own.delete(key);
    else own.set(key, { key, version: found.version, sealed: read(key, found.text) });
    if (own.size === 0) documents.delete(prefix);
    else documents.set(prefix, own);
    return true;
  }

  /** Reads all documents and returns the prefixes of those that have changed. */
  async function reload(): Promise<string[]> {
    const stored = new Map<string, { readonly text: string; readonly version: number }>();
    for (let after: string | null | undefined; after !== null; ) {
      const page = await store.documents.list(collection, { limit: 1000, ...(after === undefined ? {} : { after }) });
      for (const document of page.documents) stored.set(document.key, document);
      after = page.next;
    }
    const keys = new Set([...stored.keys(), ...[...documents.values()].flatMap((own) => [...own.keys()])]);
    const changedPrefixes = new Set([...keys].filter((key) => update(key, stored.get(key))).map(prefixOf));
    isLoaded = true;
    return [...changedPrefixes];
  }

  async function enqueue(work: () => Promise<string[]>): Promise<void> {
    const looked = queue.then(() => (isClosed ? [] : work()));
    queue = looked.then(
      () => {},
      () => {
        // Requests are refused until the documents are loaded again.
        isLoaded = false;
        clearTimeout(retry);
        if (!isClosed) retry = setTimeout(() => void enqueue(reload).catch(() => {}), retryMs).unref();
      },
    );
    // Listeners may take long, where processes end slowly. The queue does not wait for them.
    await Promise.all((await looked).map(changed));
  }

  function refresh(key: string): Promise<void> {
    return enqueue(async () => {
      if (!isLoaded) return reload();
      return update(key, await store.documents.get(collection, key)) ? [prefixOf(key)] : [];
    });
  }

  const stop = store.watch((change: Change) => {
    if (change.kind === 'lost') void enqueue(reload).catch(() => {});
    else if (change.kind === 'document' && change.collection === collection) void refresh(change.key).catch(() => {});
  });
  await enqueue(reload).catch(() => {});

  function assertKnown(): void {
    if (isLoaded) return;
    throw new AmbitError('STORE_UNAVAILABLE', { what: 'The list of credentials is not available.' });
  }

  return {
    listUnder(prefix) {
      assertKnown();
      return [...(documents.get(prefix)?.values() ?? [])];
    },
    listAll() {
      assertKnown();
      return [...documents.values()].flatMap((own) => [...own.values()]);
    },
    refresh,
    close() {
      isClosed = true;
      clearTimeout(retry);
      stop();
    },
  };
}

/** Creates the listeners of a cache. `notify` takes the prefix of the changed keys, and waits for the listeners. */
export function createChangeListeners() {
  const listeners = new Set<AuthChangeListener>();
  return {
    add: (listener: AuthChangeListener): void => void listeners.add(listener),
    async notify(prefix: string): Promise<void> {
      const concerns: MatchesUser = (userId, server) => credentialKeyPrefix(userId, server) === prefix;
      await Promise.all([...listeners].map((listener) => listener(concerns, prefix.split('/')[1] ?? '')));
    },
  };
}

function prefixOf(key: string): string {
  return key
    .split('/', 2)
    .map((part) => `${part}/`)
    .join('');
}

interface SealingKeySource {
  readonly dataDir: string;
  /** `credentials.keyFile` of the configuration. */
  readonly keyFile?: string | undefined;
  readonly env: NodeJS.ProcessEnv;
}

/** The key that seals credentials. It is never in the store. */
export interface SealingKeys {
  /** The key; undefined while none has been made. */
  current(): SealingKey | undefined;
  /** The key, made now if there is none. */
  make(): Promise<SealingKey>;
}

const keyBytes = 32;

/** Reads the key from AMBIT_CREDENTIALS_KEY, else from `keyFile`, else from a file that is made on first use. */
export function openSealingKeys({ dataDir, keyFile, env }: SealingKeySource): SealingKeys {
  const given = env['AMBIT_CREDENTIALS_KEY'];
  if (given !== undefined && given !== '') return fixedKeys(parseKey(given, 'AMBIT_CREDENTIALS_KEY'));
  if (keyFile !== undefined) {
    const text = readPrivateText(keyFile);
    if (text === undefined) throw unusableKeyError(keyFile, 'it does not exist');
    return fixedKeys(parseKey(text, keyFile));
  }
  const file = join(dataDir, 'keys', 'credentials.key');
  let known: SealingKey | undefined;
  const current = () => {
    // Another process may have made it since.
    const text = known === undefined ? readPrivateText(file) : undefined;
    if (text !== undefined) known = parseKey(text, file);
    return known;
  };
  return {
    current,
    async make() {
      makePrivateFolder(dirname(file));
      return withLock(file, () => {
        const found = current();
        if (found !== undefined) return found;
        const text = randomBytes(keyBytes).toString('base64');
        writeAtomically(file, `${text}\n`);
        known = parseKey(text, file);
        return known;
      });
    },
  };
}

function fixedKeys(key: SealingKey): SealingKeys {
  return { current: () => key, make: async () => key };
}

/** Parses a key of 32 bytes, as base64 or hex. */
function parseKey(text: string, from: string): SealingKey {
  const written = text.trim();
  const secret = /^[0-9a-f]{64}$/i.test(written) ? Buffer.from(written, 'hex') : Buffer.from(written, 'base64');
  if (secret.length !== keyBytes || !/^[A-Za-z0-9+/_=-]{43,64}$/.test(written)) {
    throw unusableKeyError(from, 'it does not contain 32 bytes as base64 or hex');
  }
  return { id: sealingKeyId(secret), secret: createSecretKey(secret) };
}

function readPrivateText(file: string): string | undefined {
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return undefined;
  const others = (stat.mode & 0o077) !== 0 || (process.getuid !== undefined && stat.uid !== process.getuid());
  if (others || !stat.isFile())
    throw unusableKeyError(file, 'it must belong to you, and nobody else may be able to read it (chmod 600)');
  return readFileSync(file, 'utf8');
}

function unusableKeyError(from: string, why: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `The key for credentials cannot be read from ${from}: ${why}.`,
    hint: 'Create one with "openssl rand -base64 32". All machines that share a store need the same key.',
  });
}
