import { isDeepStrictEqual } from 'node:util';
import { AmbitError } from '../errors.ts';
import type { Log } from '../observability/log/log.ts';
import { createKeyAsker, type KeyAskerOptions, KeyCallbackError, type KeyCallbackSecret } from './key-callback.ts';
import type { UserPrincipal } from './principal.ts';
import type { PresentedToken } from './token.ts';

/** The callback of the system that issued the keys. */
export interface KeyCallback {
  readonly url: string;
  /** The time for which an accepted key is not asked for again. */
  readonly cacheSeconds: number;
  /** A promise while the file is being created. */
  readonly secret: KeyCallbackSecret | Promise<KeyCallbackSecret>;
}

/** The result of a verification, for metrics. `limited`: the callback was not asked. */
type ExternalKeyResult = 'accepted' | 'refused' | 'failed' | 'limited';

type ExternalPrincipal = UserPrincipal & { readonly keyId: string };

/** Keys of another system, which its callback verifies. They are cached by a keyed hash, never by their text. */
export interface ExternalKeys {
  /** Tells whether a token may be sent to the callback. Tokens of Ambit and JWTs never are. */
  mayBeKey(presented: PresentedToken): boolean;
  /** Throws UNAUTHENTICATED for a refused key, and IDENTITY_UNAVAILABLE without a clear answer of the callback. */
  verify(presented: PresentedToken, address?: string): UserPrincipal | Promise<UserPrincipal>;
  /** Tells whether a key with this id was accepted and has not been refused since. */
  isGood(keyId: string): boolean;
  /** Verifies the key of a request again and again until the returned function is called. */
  hold(principal: UserPrincipal, presented: PresentedToken): () => void;
  /** Calls the listener when an accepted key is refused, or when it stands for another user or other limits. */
  onRevoked(listener: (userId: string, keyId: string) => void): void;
  /** Replaces the callback. All keys of the one before count as revoked. */
  replace(callback: KeyCallback | undefined): void;
  close(): void;
}

interface ExternalKeysOptions extends Pick<KeyAskerOptions, 'maxInVain'> {
  readonly log: Log;
  onResult?(result: ExternalKeyResult): void;
  /** Clocks for tests. */
  readonly now?: () => number;
  readonly elapsed?: () => number;
}

/** The callback in use. Its secret is replaced when the file has been created. */
type CurrentCallback = Omit<KeyCallback, 'secret'> & { secret: KeyCallback['secret'] };

/** A key with the callback that was in use when it was presented. */
interface KeyCheck {
  readonly id: string;
  readonly token: string;
  readonly address: string | undefined;
  readonly callback: CurrentCallback;
  readonly secret: KeyCallbackSecret;
}

interface AcceptedKey {
  readonly principal: ExternalPrincipal;
  /** On the monotonic clock. */
  readonly until: number;
  /** On the clock of the system. */
  readonly expiresAt: number;
}

/** A key whose requests are being served. */
interface HeldKey {
  readonly presented: PresentedToken;
  principal: ExternalPrincipal;
  requests: number;
}

const keyIdPrefix = 'ext-';
const refusedMs = 5000;
const failedMs = 1000;
const recheckMs = 500;
const warnEveryMs = 60_000;
const maxKeys = 10_000;

/** Tells whether a key id belongs to a key of another system. */
export function isExternalKeyId(keyId: string | undefined): boolean {
  return keyId?.startsWith(keyIdPrefix) === true;
}

export function createExternalKeys(options: ExternalKeysOptions): ExternalKeys {
  const { log, onResult, now = Date.now, elapsed = () => performance.now() } = options;
  const memory = createKeyMemory(now, elapsed);
  const asking = new Map<string, Promise<UserPrincipal>>();
  const listeners: ((userId: string, keyId: string) => void)[] = [];
  const asker = createKeyAsker({ ...options, elapsed });
  const warnedAt = new Map<string, number>();
  let current: CurrentCallback | undefined;
  let timer: NodeJS.Timeout | undefined;

  /** Logs each reason at most once a minute, because strangers decide how often it occurs. There are few reasons. */
  function warnRarely(reason: string, warn: () => void): void {
    if (elapsed() - (warnedAt.get(reason) ?? -Infinity) < warnEveryMs) return;
    warnedAt.set(reason, elapsed());
    warn();
  }

  function notifyRevoked(principal: ExternalPrincipal | undefined): void {
    if (principal === undefined) return;
    for (const listener of listeners) listener(principal.userId, principal.keyId);
  }

  function refuseKey(id: string, host: string, reason: string): AmbitError {
    const before = memory.refuse(id);
    onResult?.('refused');
    warnRarely(`refused: ${reason}`, () => log.warn('external key refused', { host, reason }));
    notifyRevoked(before);
    return refusedError();
  }

  function failKey(id: string, host: string, { message: reason, isLimited }: KeyCallbackError): AmbitError {
    if (!isLimited) memory.noteFailure(id);
    onResult?.(isLimited ? 'limited' : 'failed');
    warnRarely(reason, () => log.warn('external key cannot be verified', { host, reason }));
    return unavailableError();
  }

  async function checkKey({ id, token, address, callback, secret }: KeyCheck): Promise<UserPrincipal> {
    const { url, cacheSeconds } = callback;
    const { host } = new URL(url);
    const until = elapsed() + cacheSeconds * 1000;
    try {
      const answer = await asker.ask({ url, secret }, { token, address, isNew: !memory.isKnown(id) });
      // Meanwhile the configuration may name another callback.
      if (callback !== current) throw unavailableError();
      if (!answer.isAccepted) throw refuseKey(id, host, `status ${answer.status}`);
      const { userId, ceiling, expiresAt } = answer;
      if (expiresAt <= now()) throw refuseKey(id, host, 'expired');
      const principal: ExternalPrincipal = Object.freeze({ kind: 'user', userId, via: 'key', keyId: id, ceiling });
      const before = memory.accept({ principal, until, expiresAt });
      onResult?.('accepted');
      if (before !== undefined && !hasSameAccess(before, principal)) notifyRevoked(before);
      return principal;
    } catch (error) {
      if (!(error instanceof KeyCallbackError)) throw error;
      throw callback === current ? failKey(id, host, error) : unavailableError();
    }
  }

  /** Checks a key once for all requests that present it at the same time. */
  function checkOnce(check: KeyCheck): Promise<UserPrincipal> {
    const { id } = check;
    const error = memory.findError(id);
    if (error !== undefined) return Promise.reject(error);
    const pending = asking.get(id);
    if (pending !== undefined) return pending;
    const asked = checkKey(check).finally(() => {
      if (asking.get(id) === asked) asking.delete(id);
    });
    asking.set(id, asked);
    return asked;
  }

  function verify(presented: PresentedToken, address?: string): UserPrincipal | Promise<UserPrincipal> {
    const callback = current;
    if (callback === undefined) return Promise.reject(refusedError());
    const { secret } = callback;
    if (secret instanceof Promise) {
      return secret.then(
        () => verify(presented, address),
        () => Promise.reject(unavailableError()),
      );
    }
    const id = keyIdPrefix + secret.fingerprint(presented.token);
    return memory.findFresh(id) ?? checkOnce({ id, token: presented.token, address, callback, secret });
  }

  function recheckHeld(): void {
    for (const presented of memory.listStale()) void Promise.resolve(verify(presented)).catch(() => {});
  }

  function useCallback(callback: CurrentCallback | undefined): void {
    current = callback;
    clearInterval(timer);
    timer = callback && setInterval(recheckHeld, recheckMs).unref();
    if (!(callback?.secret instanceof Promise)) return;
    callback.secret.then(
      (secret) => {
        callback.secret = secret;
      },
      ({ message }: Error) => log.warn('external key cannot be verified', { reason: message }),
    );
  }

  return {
    mayBeKey: (presented) => current !== undefined && isForeignToken(presented),
    verify,
    isGood: memory.isAccepted,
    hold: memory.hold,
    onRevoked: (listener) => void listeners.push(listener),
    replace(callback) {
      const before = memory.clear();
      asking.clear();
      useCallback(callback && { ...callback });
      before.forEach(notifyRevoked);
    },
    close() {
      clearInterval(timer);
      asker.close();
    },
  };
}

/** Remembers keys by their ids, each kind up to a limit. */
function createKeyMemory(now: () => number, elapsed: () => number) {
  const accepted = new Map<string, AcceptedKey>();
  /** Refusals and failures, apart from accepted keys, so that strangers cannot push those out. */
  const recent = new Map<string, { readonly error: () => AmbitError; readonly until: number }>();
  const held = new Map<string, HeldKey>();

  function findFresh(id: string): ExternalPrincipal | undefined {
    const known = accepted.get(id);
    return known !== undefined && elapsed() < known.until && now() < known.expiresAt ? known.principal : undefined;
  }

  function findPrincipal(id: string): ExternalPrincipal | undefined {
    return accepted.get(id)?.principal ?? held.get(id)?.principal;
  }

  return {
    findFresh,
    isAccepted: (id: string) => accepted.has(id),
    /** Tells whether the key was accepted before, though it may have to be checked again. */
    isKnown: (id: string) => findPrincipal(id) !== undefined,
    findError(id: string): AmbitError | undefined {
      const found = recent.get(id);
      return found !== undefined && elapsed() < found.until ? found.error() : undefined;
    },
    /** Returns the principal before. */
    accept(key: AcceptedKey): ExternalPrincipal | undefined {
      const { keyId } = key.principal;
      const before = findPrincipal(keyId);
      recent.delete(keyId);
      setLast(accepted, keyId, key);
      const holder = held.get(keyId);
      if (holder !== undefined) holder.principal = key.principal;
      return before;
    },
    /** Returns the principal before. */
    refuse(id: string): ExternalPrincipal | undefined {
      const before = findPrincipal(id);
      accepted.delete(id);
      held.delete(id);
      setLast(recent, id, { error: refusedError, until: elapsed() + refusedMs });
      return before;
    },
    noteFailure: (id: string) => setLast(recent, id, { error: unavailableError, until: elapsed() + failedMs }),
    hold(principal: UserPrincipal, presented: PresentedToken): () => void {
      const { keyId = '' } = principal;
      const known = held.get(keyId);
      const key = known ?? { presented, principal: { ...principal, keyId }, requests: 0 };
      if (known === undefined) held.set(keyId, key);
      key.requests++;
      return () => {
        if (--key.requests === 0 && held.get(keyId) === key) held.delete(keyId);
      };
    },
    /** Lists the held keys that have to be checked again. */
    listStale: () => [...held].flatMap(([id, { presented }]) => (findFresh(id) === undefined ? [presented] : [])),
    /** Forgets all keys and returns the principals of those that were accepted. */
    clear(): ExternalPrincipal[] {
      const principals = [...new Set([...accepted.keys(), ...held.keys()])].flatMap((id) => findPrincipal(id) ?? []);
      for (const map of [accepted, recent, held]) map.clear();
      return principals;
    },
  };
}

/** Sets the newest entry of a map. A full map loses its oldest. */
function setLast<T>(map: Map<string, T>, key: string, value: T): void {
  map.delete(key);
  if (map.size >= maxKeys) map.delete(map.keys().next().value as string);
  map.set(key, value);
}

/** Compares what two answers about one key allow. The order of workspaces only chooses the usual one. */
function hasSameAccess(one: UserPrincipal, other: UserPrincipal): boolean {
  const access = ({ userId, ceiling }: UserPrincipal) => {
    const { workspaces } = ceiling;
    return { userId, ...ceiling, workspaces: workspaces && [...workspaces].sort() };
  };
  return isDeepStrictEqual(access(one), access(other));
}

const lengths = { min: 8, max: 512 };
/** Matches tokens of Ambit, also with a typo: by a prefix of theirs, or by a generated id and the end of a token. */
const ownToken = /(?:^|[^a-z])amb[skaco]_|(?:[0-9a-f]{32}|admin)_[0-9a-z]{48,50}$/i;

/** Tells whether a token can be a key of another system. A JWT is for the audience that it names, and for nobody else. */
function isForeignToken({ kind, token }: PresentedToken): boolean {
  if (kind !== undefined || token.length < lengths.min || token.length > lengths.max) return false;
  return !ownToken.test(token) && !hasJoseHeader(token);
}

function hasJoseHeader(token: string): boolean {
  const end = token.indexOf('.');
  if (token.startsWith('eyJ')) return true;
  if (end === -1) return false;
  try {
    const header: unknown = JSON.parse(Buffer.from(token.slice(0, end), 'base64url').toString('utf8'));
    return typeof header === 'object' && header !== null;
  } catch {
    return false;
  }
}

function refusedError(): AmbitError {
  return new AmbitError('UNAUTHENTICATED');
}

function unavailableError(): AmbitError {
  return new AmbitError('IDENTITY_UNAVAILABLE', {
    what: 'The key cannot be verified now.',
    rule: 'auth.keys',
    retryAfterMs: failedMs,
  });
}
