import { randomBytes } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import { type Documents, readAllDocuments } from '../stores/documents.ts';
import {
  createLastUseLog,
  findKeyState,
  type KeyRecord,
  type KeyView,
  keyCollection,
  parseKeyRecord,
  toKeyView,
  writeKeyRecord,
} from './key-record.ts';
import type { AccessCeiling, UserPrincipal } from './principal.ts';
import { digestsEqual, hasValidChecksum, mintToken, type PresentedToken } from './token.ts';
import { userNotFound } from './users.ts';

interface KeyDraft {
  readonly userId: string;
  readonly ceiling: AccessCeiling;
  /** The lifetime; without it the key never expires. */
  readonly lifeSeconds?: number | undefined;
}

export interface MintedKey {
  readonly view: KeyView;
  /** Shown here and never again. */
  readonly key: string;
}

export interface Keys {
  create(draft: KeyDraft): Promise<MintedKey>;
  get(id: string): Promise<KeyView | undefined>;
  list(filter?: { readonly userId?: string | undefined }): Promise<KeyView[]>;
  /** Revokes a key for good. Returns it as it is then; undefined when there is none. */
  revoke(id: string): Promise<KeyView | undefined>;
  /** Gives the key a new secret; the old one is accepted for `overlapSeconds`. */
  rotate(id: string, overlapSeconds?: number): Promise<MintedKey>;
  /**
   * Throws UNAUTHENTICATED unless the secret verifies and the key is active. A promise only when the store is needed.
   */
  verify(presented: PresentedToken): UserPrincipal | Promise<UserPrincipal>;
  /** Tells whether a key is active, by the store and not by the cache. */
  isGood(id: string): Promise<boolean>;
  /** Tells whether keys of more than one user are active; at most a second old. */
  areOfSeveralUsers(): Promise<boolean>;
}

interface KeysOptions {
  readonly documents: Documents;
  readonly isUser: (name: string) => Promise<boolean>;
  readonly now: () => number;
}

const maxTries = 16;
const severalUsersCacheMs = 750;

/** `forgetCached` is for the listener to changes that other processes make. */
export function createKeys(options: KeysOptions): Keys & { forgetCached(id?: string): void } {
  const { documents, isUser, now } = options;
  const uses = createLastUseLog(documents, now);
  const verifier = createKeyVerifier({ readRecord, isUser, onVerified: uses.note, now });
  let severalUsers: { readonly at: number; readonly answer: Promise<boolean> } | undefined;

  async function readRecord(id: string): Promise<KeyRecord | undefined> {
    const found = await documents.get(keyCollection, id);
    return found && parseKeyRecord(id, found.text);
  }

  async function readAllRecords(): Promise<KeyRecord[]> {
    return (await readAllDocuments(documents, keyCollection)).flatMap(
      ({ key, text }) => parseKeyRecord(key, text) ?? [],
    );
  }

  function forgetCached(id?: string): void {
    verifier.forget(id);
    severalUsers = undefined;
  }

  async function describeKey(record: KeyRecord): Promise<KeyView> {
    return toKeyView(record, await uses.of(record.id), now());
  }

  /** Reads, decides and writes, again after a conflict; undefined when there is no such key. */
  async function changeKey(id: string, decide: (record: KeyRecord) => KeyRecord): Promise<KeyRecord | undefined> {
    if (!isKeyId(id)) return undefined;
    for (let tries = 0; tries < maxTries; tries++) {
      const found = await documents.get(keyCollection, id);
      const record = found && parseKeyRecord(id, found.text);
      if (record === undefined) return undefined;
      const next = decide(record);
      if (next === record) return record;
      const put = await documents.put(keyCollection, id, writeKeyRecord(next), {
        expectedVersion: found?.version ?? 0,
      });
      forgetCached(id);
      if (put.outcome === 'written') return next;
    }
    throw new AmbitError('OVERLOADED', { what: 'This key is being changed by someone else.', hint: 'Try again.' });
  }

  async function writeNewKey(record: KeyRecord): Promise<void> {
    const put = () => documents.put(keyCollection, record.id, writeKeyRecord(record), { expectedVersion: 0 });
    let { outcome } = await put();
    if (outcome === 'full') {
      // Expired and revoked keys make room.
      for (const each of await readAllRecords()) if (findKeyState(each, now()) !== 'active') await deleteKey(each.id);
      ({ outcome } = await put());
    }
    if (outcome !== 'written')
      throw new AmbitError('REQUEST_INVALID', { what: 'The store has no space for another key.' });
  }

  async function deleteKey(id: string): Promise<void> {
    await documents.delete(keyCollection, id);
    await uses.forget(id);
    forgetCached(id);
  }

  return {
    async create({ userId, ceiling, lifeSeconds }) {
      if (!(await isUser(userId))) throw userNotFound(userId);
      const id = randomBytes(16).toString('hex');
      const { token, digest } = mintToken('ambk', id);
      const createdAt = now();
      const expiresAt = lifeSeconds === undefined ? null : createdAt + lifeSeconds * 1000;
      const record = { id, digest, previous: null, userId, ceiling, createdAt, expiresAt, revokedAt: null };
      await writeNewKey(record);
      forgetCached(id);
      // The user may have been removed meanwhile, and that removal cannot have seen this key.
      if (!(await isUser(userId))) {
        await deleteKey(id);
        throw userNotFound(userId);
      }
      return { view: toKeyView(record, undefined, createdAt), key: token };
    },

    async get(id) {
      const record = isKeyId(id) ? await readRecord(id) : undefined;
      return record && describeKey(record);
    },

    async list({ userId } = {}) {
      const lastUses = await uses.all();
      return (await readAllRecords())
        .filter((record) => userId === undefined || record.userId === userId)
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
        .map((record) => toKeyView(record, lastUses.get(record.id), now()));
    },

    async revoke(id) {
      const record = await changeKey(id, (each) => (each.revokedAt === null ? { ...each, revokedAt: now() } : each));
      return record && describeKey(record);
    },

    async rotate(id, overlapSeconds = 0) {
      const { token, digest } = mintToken('ambk', id);
      const record = await changeKey(id, (each) => {
        const state = findKeyState(each, now());
        if (state !== 'active') {
          throw new AmbitError('REQUEST_INVALID', {
            what: `The key is ${state} and cannot be rotated.`,
            hint: 'Make a new one with "ambit key create".',
          });
        }
        return { ...each, digest, previous: { digest: each.digest, until: now() + overlapSeconds * 1000 } };
      });
      if (record === undefined) throw keyNotFound();
      return { view: await describeKey(record), key: token };
    },

    verify: verifier.verify,

    async isGood(id) {
      const record = await readRecord(id);
      return record !== undefined && findKeyState(record, now()) === 'active' && isUser(record.userId);
    },

    areOfSeveralUsers() {
      if (severalUsers !== undefined && performance.now() - severalUsers.at < severalUsersCacheMs)
        return severalUsers.answer;
      const answer = readAllRecords().then((records) => {
        const good = records.filter((record) => findKeyState(record, now()) === 'active');
        return new Set(good.map(({ userId }) => userId)).size > 1;
      });
      const query = { at: performance.now(), answer };
      severalUsers = query;
      answer.catch(() => {
        if (severalUsers === query) severalUsers = undefined;
      });
      return answer;
    },

    forgetCached,
  };
}

export function keyNotFound(): AmbitError {
  return new AmbitError('KEY_NOT_FOUND');
}

function isKeyId(id: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(id);
}

interface KeyVerifierOptions {
  /** Reads a key from the store; undefined when there is none. */
  readRecord(id: string): Promise<KeyRecord | undefined>;
  isUser(name: string): Promise<boolean>;
  onVerified(id: string): void;
  now(): number;
}

interface KeyVerifier {
  /**
   * Throws UNAUTHENTICATED unless the secret verifies and the key is active. A promise only when the store is needed.
   */
  verify(presented: PresentedToken): UserPrincipal | Promise<UserPrincipal>;
  /** Drops what is cached about this key, or about all. */
  forget(id?: string): void;
}

interface VerifiedSecret {
  readonly digest: string;
  readonly until: number;
  readonly readAt: number;
}

interface VerifiedKey {
  readonly principal: UserPrincipal;
  /** Two entries while the secret before a rotation is still accepted. */
  readonly secrets: readonly VerifiedSecret[];
}

/** The time for which a verified key is cached, and after which a revoked one has stopped working everywhere. */
const cacheMs = 750;
const maxVerifiedKeys = 10_000;
/** The digest that unknown keys are compared with; no token has it. */
const unknownDigest = randomBytes(32).toString('hex');

function createKeyVerifier({ readRecord, isUser, onVerified, now }: KeyVerifierOptions): KeyVerifier {
  const verifiedKeys = new Map<string, VerifiedKey>();
  let changes = 0;

  /** Answers from memory only for the right secret, so that others cannot tell known ids from unknown ones by time. */
  function findCached({ kind, id, digest }: PresentedToken): UserPrincipal | undefined {
    const known = kind === 'ambk' && id !== undefined ? verifiedKeys.get(id) : undefined;
    const secret = known?.secrets.find((each) => digestsEqual(each.digest, digest));
    if (secret === undefined || performance.now() - secret.readAt >= cacheMs) return undefined;
    return now() < secret.until ? known?.principal : undefined;
  }

  async function verifyByStore({ kind, id, token, digest }: PresentedToken): Promise<UserPrincipal> {
    // The checksum detects typos without the store.
    if (kind !== 'ambk' || id === undefined || !hasValidChecksum(token)) throw new AmbitError('UNAUTHENTICATED');
    const [readAt, before] = [performance.now(), changes];
    const record = await readRecord(id);
    // Both are always compared, so that an unknown key, a wrong secret and an old one take the same time.
    const isCurrent = digestsEqual(record?.digest ?? unknownDigest, digest);
    const isPrevious = digestsEqual(record?.previous?.digest ?? unknownDigest, digest);
    if (record === undefined || !(isCurrent || isPrevious)) throw new AmbitError('UNAUTHENTICATED');
    // From here on the caller has, or had, the secret and may learn the state of the key.
    const state = findKeyState(record, now());
    if (state !== 'active') throw refuseKey(`The key has ${state === 'revoked' ? 'been revoked' : 'expired'}.`);
    const until = Math.min(record.expiresAt ?? Infinity, isCurrent ? Infinity : (record.previous?.until ?? 0));
    if (now() >= until) throw refuseKey('The key has been rotated. This is the old one.');
    if (!(await isUser(record.userId))) throw refuseKey('The user of the key no longer exists.');
    const principal = createPrincipal(record);
    if (before === changes) cacheSecret(id, principal, { digest, until, readAt });
    onVerified(id);
    return principal;
  }

  function cacheSecret(id: string, principal: UserPrincipal, secret: VerifiedSecret): void {
    const other = verifiedKeys.get(id)?.secrets.find(({ digest }) => digest !== secret.digest);
    verifiedKeys.delete(id);
    if (verifiedKeys.size >= maxVerifiedKeys) verifiedKeys.delete(verifiedKeys.keys().next().value as string);
    verifiedKeys.set(id, { principal, secrets: other === undefined ? [secret] : [secret, other] });
  }

  return {
    verify: (presented) => findCached(presented) ?? verifyByStore(presented),
    forget(id) {
      changes++;
      if (id === undefined) verifiedKeys.clear();
      else verifiedKeys.delete(id);
    },
  };
}

function createPrincipal({ id, userId, ceiling }: KeyRecord): UserPrincipal {
  return Object.freeze({ kind: 'user', userId, via: 'key', keyId: id, ceiling: Object.freeze(ceiling) });
}

function refuseKey(what: string): AmbitError {
  return new AmbitError('UNAUTHENTICATED', { what, hint: 'Ask the operator of Ambit for a new key.' });
}
