import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import { RenewalError, type TokenGrant } from './authorization-server.ts';
import { type Login, type LoginFacts, loginKey, loginsCollection, openLogin, readLogin, sealLogin } from './login.ts';
import type { SealingKeys } from './sealed-documents.ts';

interface LoginRenewalOptions {
  readonly store: SessionStore;
  readonly keys: SealingKeys;
  /** Asks the authorization server for new tokens; throws `RenewalError`. */
  readonly requestTokens: (login: Login, refreshToken: string) => Promise<TokenGrant>;
  readonly onEvent: (event: 'login-renewed' | 'login-lost', facts: LoginFacts) => void;
  readonly now: () => number;
}

const leaseMs = 60_000;
const pollMs = 150;
const retryMs = 5000;
/** The age below which a refused token was not refused for its age. */
const youngMs = 5000;

/**
 * Renews logins under a lease in the store. A refresh token that is used twice counts as stolen, and ends the login. A
 * lease that was never released means that its token may have been used.
 */
export function createLoginRenewal({ store, keys, requestTokens, onEvent, now }: LoginRenewalOptions) {
  const ownId = randomUUID();
  const running = new Map<string, Promise<Login | undefined>>();

  const isExpired = ({ expiresAt }: LoginFacts) => expiresAt !== undefined && expiresAt <= now();
  /** True when the login must be renewed before its next use. */
  function isDue({ expiresAt, renewedAt }: LoginFacts): boolean {
    if (expiresAt === undefined) return false;
    return now() >= expiresAt - Math.min(120_000, (expiresAt - renewedAt) / 5);
  }

  async function write(key: string, facts: LoginFacts, login: Login, version: number): Promise<number | undefined> {
    const sealing = await keys.make();
    const { url, resource, accessToken, refreshToken, client, as } = login;
    const secrets = { url, resource, accessToken, client, as, ...(refreshToken === undefined ? {} : { refreshToken }) };
    const text = JSON.stringify(sealLogin(facts, secrets, sealing));
    const put = await store.documents.put(loginsCollection, key, text, { expectedVersion: version });
    return put.outcome === 'written' ? put.version : undefined;
  }

  async function markLost(key: string, login: Login, version: number, why: string): Promise<undefined> {
    const facts: LoginFacts = { ...withoutLease(login), state: 'lost', why };
    if ((await write(key, facts, login, version)) !== undefined) onEvent('login-lost', facts);
    return undefined;
  }

  /** Saves with retries: the old token is used up, so the new one must not be lost. */
  async function saveWithRetry(key: string, facts: LoginFacts, login: Login, version: number): Promise<boolean> {
    for (let left = 8; ; left--) {
      try {
        return (await write(key, facts, login, version)) !== undefined;
      } catch (error) {
        if (left === 0) throw error;
        await pause(pollMs * 2 ** (8 - left) * 0.25);
      }
    }
  }

  async function renewLogin(key: string, login: Login, version: number, refused: string | undefined) {
    const refreshToken = login.refreshToken as string;
    const lease = { by: ownId, until: now() + leaseMs };
    const held = await write(key, { ...withoutLease(login), lease }, login, version);
    if (held === undefined) return 'again' as const;
    try {
      const granted = await requestTokens(login, refreshToken);
      const next = applyGrant(login, granted, now());
      if (!(await saveWithRetry(key, withoutLease(next), next, held))) return 'again' as const;
      onEvent('login-renewed', withoutLease(next));
      return next;
    } catch (error) {
      if (!(error instanceof RenewalError)) throw error;
      const unused = error.how === 'later' || (error.how === 'unknown' && login.rotates === false);
      if (!unused) return markLost(key, login, held, `it was not renewed: ${error.message}`);
      await write(key, { ...withoutLease(login), retryAt: now() + retryMs }, login, held);
      if (refused === undefined && !isExpired(login)) return login;
      throw renewalUnavailableError(login);
    }
  }

  async function findFresh(userId: string, server: string, refused: string | undefined): Promise<Login | undefined> {
    const key = loginKey(userId, server);
    for (;;) {
      const found = await store.documents.get(loginsCollection, key);
      const sealed = found === undefined ? undefined : readLogin(key, found.text);
      if (found === undefined || sealed === undefined || sealed.facts.state === 'lost') return undefined;
      const login = openLogin(sealed, keys.current());
      if (login === undefined) throw unopenableError(server);
      const spoiled = refused === login.accessToken && now() - login.renewedAt >= youngMs;
      if (refused === login.accessToken && !spoiled && !isExpired(login)) return login;
      if (!spoiled && !isDue(login)) return login;
      const usable = !spoiled && !isExpired(login);
      if (login.refreshToken === undefined) {
        return usable ? login : markLost(key, login, found.version, 'it expired and cannot be renewed');
      }
      const { lease, retryAt = 0 } = login;
      if (lease !== undefined && lease.until > now()) {
        await pause(pollMs);
        continue;
      }
      if (lease !== undefined && login.rotates !== false) {
        return usable ? login : markLost(key, login, found.version, 'its renewal was interrupted');
      }
      if (retryAt > now()) {
        if (usable) return login;
        throw renewalUnavailableError(login);
      }
      const outcome = await renewLogin(key, login, found.version, spoiled ? refused : undefined);
      if (outcome !== 'again') return outcome;
    }
  }

  return {
    isDue,
    /**
     * Finds the login with a valid token, and renews it when it is due or when the server refused the given token.
     * Undefined when it is gone or lost. Callers wait for a renewal that is running, here or in another process.
     */
    ensureFresh(userId: string, server: string, refused?: string): Promise<Login | undefined> {
      const key = `${loginKey(userId, server)} ${refused ?? ''}`;
      const known = running.get(key);
      if (known !== undefined) return known;
      const finding = findFresh(userId, server, refused).finally(() => running.delete(key));
      running.set(key, finding);
      return finding;
    },
  };
}

function applyGrant(login: Login, granted: TokenGrant, at: number): Login {
  const { expiresAt: _, lease: __, retryAt: ___, ...rest } = login;
  const next = granted.refreshToken ?? login.refreshToken;
  return {
    ...rest,
    accessToken: granted.accessToken,
    ...(next === undefined ? {} : { refreshToken: next }),
    ...(granted.expiresAt === undefined ? {} : { expiresAt: granted.expiresAt }),
    ...(granted.scopes === undefined ? {} : { scopes: granted.scopes }),
    renewedAt: at,
    rotates: granted.refreshToken !== undefined && granted.refreshToken !== login.refreshToken,
  };
}

/** Copies the facts without the lease and the retry time. */
export function withoutLease(login: LoginFacts): LoginFacts {
  const { id, userId, server, issuer, scopes, wanted, state, madeAt, renewedAt, why, expiresAt, rotates } = login;
  return {
    id,
    userId,
    server,
    issuer,
    scopes,
    wanted,
    state,
    madeAt,
    renewedAt,
    ...(why === undefined ? {} : { why }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(rotates === undefined ? {} : { rotates }),
  };
}

export function unopenableError(server: string): AmbitError {
  return new AmbitError('CREDENTIAL_UNUSABLE', {
    what: `The login to "${server}" was encrypted with another key, or the stored value is damaged.`,
  });
}

function renewalUnavailableError({ server }: LoginFacts): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The login to "${server}" cannot be renewed: its authorization server does not answer.`,
    hint: 'Try again shortly.',
    retryAfterMs: retryMs,
  });
}
