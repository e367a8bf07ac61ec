import { randomBytes } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import { findKeyState, type KeyRecord } from './key-record.ts';
import type { UserPrincipal } from './principal.ts';
import { digestsEqual, hasValidChecksum, type PresentedToken } from './token.ts';

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

export function createKeyVerifier({ readRecord, isUser, onVerified, now }: KeyVerifierOptions): KeyVerifier {
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
