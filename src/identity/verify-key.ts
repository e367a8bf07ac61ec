import { randomBytes } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import { findKeyState, type KeyRecord } from './key-record.ts';
import type { UserPrincipal } from './principal.ts';
import { digestsEqual, isWhole, type PresentedToken } from './token.ts';

export interface KeyVerifierOptions {
  /** From the store; undefined when there is no such key. */
  readRecord(id: string): Promise<KeyRecord | undefined>;
  /** Whether there is this user still. */
  isUser(name: string): Promise<boolean>;
  /** A key has been verified by the store. */
  onVerified(id: string): void;
  now(): number;
}

export interface KeyVerifier {
  /** UNAUTHENTICATED unless the secret verifies and the key is good. A promise only when the store has to be asked. */
  verify(presented: PresentedToken): UserPrincipal | Promise<UserPrincipal>;
  /** Something about this key is new, or about all of them. */
  forget(id?: string): void;
}

interface VerifiedSecret {
  readonly digest: string;
  readonly until: number;
  readonly readAt: number;
}

interface VerifiedKey {
  readonly principal: UserPrincipal;
  /** Two while the one before a rotation is still taken. */
  readonly secrets: readonly VerifiedSecret[];
}

/** Within this time a key that was revoked stops working everywhere, even where nothing was heard of it. */
const cacheMs = 750;
const maxVerifiedKeys = 10_000;
/** What an unknown key is compared with; no token has this digest. */
const unknownDigest = randomBytes(32).toString('hex');

export function createKeyVerifier({ readRecord, isUser, onVerified, now }: KeyVerifierOptions): KeyVerifier {
  const verifiedKeys = new Map<string, VerifiedKey>();
  let changes = 0;

  /** Only whoever holds the secret is answered from memory: for others a known id takes as long as an unknown one. */
  function findCached({ kind, id, digest }: PresentedToken): UserPrincipal | undefined {
    const known = kind === 'ambk' && id !== undefined ? verifiedKeys.get(id) : undefined;
    const secret = known?.secrets.find((each) => digestsEqual(each.digest, digest));
    if (secret === undefined || performance.now() - secret.readAt >= cacheMs) return undefined;
    return now() < secret.until ? known?.principal : undefined;
  }

  async function verifyByStore({ kind, id, token, digest }: PresentedToken): Promise<UserPrincipal> {
    // Typos are told from the key alone.
    if (kind !== 'ambk' || id === undefined || !isWhole(token)) throw new AmbitError('UNAUTHENTICATED');
    const [readAt, before] = [performance.now(), changes];
    const record = await readRecord(id);
    // Both are compared, whatever comes of it: an unknown key, a wrong secret and an old one take the same way.
    const isCurrent = digestsEqual(record?.digest ?? unknownDigest, digest);
    const isPrevious = digestsEqual(record?.previous?.digest ?? unknownDigest, digest);
    if (record === undefined || !(isCurrent || isPrevious)) throw new AmbitError('UNAUTHENTICATED');
    // From here on the caller holds the secret, or held it, and may know what has become of the key.
    const state = findKeyState(record, now());
    if (state !== 'active') throw refuseKey(`The key has ${state === 'revoked' ? 'been revoked' : 'expired'}.`);
    const until = Math.min(record.expiresAt ?? Infinity, isCurrent ? Infinity : (record.previous?.until ?? 0));
    if (now() >= until) throw refuseKey('The key has been rotated, and this is the one before.');
    if (!(await isUser(record.userId))) throw refuseKey('The user of the key is no longer there.');
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
  return new AmbitError('UNAUTHENTICATED', { what, hint: 'Ask whoever runs Ambit for a new key.' });
}
