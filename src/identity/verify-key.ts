import { randomBytes } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import { type KeyRecord, stateOf } from './key-record.ts';
import type { UserPrincipal } from './principal.ts';
import { digestsEqual, isWhole, type PresentedToken } from './token.ts';

export interface VerifyOptions {
  /** From the store; undefined when there is no such key. */
  read(id: string): Promise<KeyRecord | undefined>;
  /** Whether there is this user still. */
  isUser(name: string): Promise<boolean>;
  /** A key has been verified by the store. */
  used(id: string): void;
  now(): number;
}

export interface KeyVerifier {
  /** UNAUTHENTICATED unless the secret verifies and the key is good. A promise only when the store has to be asked. */
  verify(presented: PresentedToken): UserPrincipal | Promise<UserPrincipal>;
  /** Something about this key is new, or about all of them. */
  forget(id?: string): void;
}

interface Secret {
  readonly digest: string;
  readonly until: number;
  readonly readAt: number;
}

interface Proven {
  readonly principal: UserPrincipal;
  /** Two while the one before a rotation is still taken. */
  readonly secrets: readonly Secret[];
}

/** Within this time a key that was revoked stops working everywhere, even where nothing was heard of it. */
const provenMs = 750;
const mostProven = 10_000;
/** What an unknown key is compared with; no token has this digest. */
const nobody = randomBytes(32).toString('hex');

export function createKeyVerifier({ read, isUser, used, now }: VerifyOptions): KeyVerifier {
  const proven = new Map<string, Proven>();
  let changes = 0;

  /** Only whoever holds the secret is answered from memory: for others a known id takes as long as an unknown one. */
  function remembered({ kind, id, digest }: PresentedToken): UserPrincipal | undefined {
    const known = kind === 'ambk' && id !== undefined ? proven.get(id) : undefined;
    const secret = known?.secrets.find((each) => digestsEqual(each.digest, digest));
    if (secret === undefined || performance.now() - secret.readAt >= provenMs) return undefined;
    return now() < secret.until ? known?.principal : undefined;
  }

  async function byStore({ kind, id, token, digest }: PresentedToken): Promise<UserPrincipal> {
    // Typos are told from the key alone.
    if (kind !== 'ambk' || id === undefined || !isWhole(token)) throw new AmbitError('UNAUTHENTICATED');
    const [readAt, before] = [performance.now(), changes];
    const record = await read(id);
    // Both are compared, whatever comes of it: an unknown key, a wrong secret and an old one take the same way.
    const isCurrent = digestsEqual(record?.digest ?? nobody, digest);
    const isPrevious = digestsEqual(record?.previous?.digest ?? nobody, digest);
    if (record === undefined || !(isCurrent || isPrevious)) throw new AmbitError('UNAUTHENTICATED');
    // From here on the caller holds the secret, or held it, and may know what has become of the key.
    const state = stateOf(record, now());
    if (state !== 'active') throw noLonger(`The key has ${state === 'revoked' ? 'been revoked' : 'expired'}.`);
    const until = Math.min(record.expiresAt ?? Infinity, isCurrent ? Infinity : (record.previous?.until ?? 0));
    if (now() >= until) throw noLonger('The key has been rotated, and this is the one before.');
    if (!(await isUser(record.userId))) throw noLonger('The user of the key is no longer there.');
    const principal = principalOf(record);
    if (before === changes) remember(id, principal, { digest, until, readAt });
    used(id);
    return principal;
  }

  function remember(id: string, principal: UserPrincipal, secret: Secret): void {
    const other = proven.get(id)?.secrets.find(({ digest }) => digest !== secret.digest);
    proven.delete(id);
    if (proven.size >= mostProven) proven.delete(proven.keys().next().value as string);
    proven.set(id, { principal, secrets: other === undefined ? [secret] : [secret, other] });
  }

  return {
    verify: (presented) => remembered(presented) ?? byStore(presented),
    forget(id) {
      changes++;
      if (id === undefined) proven.clear();
      else proven.delete(id);
    },
  };
}

function principalOf({ id, userId, ceiling }: KeyRecord): UserPrincipal {
  return Object.freeze({ kind: 'user', userId, via: 'key', keyId: id, ceiling: Object.freeze(ceiling) });
}

function noLonger(what: string): AmbitError {
  return new AmbitError('UNAUTHENTICATED', { what, hint: 'Ask whoever runs Ambit for a new key.' });
}
