import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { ResolveHost } from '../../lib/net/host-and-port.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type Challenge, discoverResource, RenewalError, renewToken, revokeToken } from './authorization-server.ts';
import { credentialKeyPrefix } from './credential-target.ts';
import { createGuardedFetch, createLoginHosts, type GuardedFetch, type LoginHosts } from './guarded-fetch.ts';
import {
  createLoginAttempts,
  createLoginTickets,
  createStartLimiter,
  isAllowedIssuer,
  type Login,
  type LoginAttempt,
  type LoginFacts,
  type LoginServer,
  type LoginTickets,
  type LoginView,
  loginKey,
  loginsCollection,
  openLogin,
  readLogin,
  type SealedLogin,
  sealLogin,
  toLoginView,
} from './login.ts';
import { assertRedirectUri, completeLogin, type ReturnTarget, readState, startLogin } from './login-flow.ts';
import { createLoginRenewal, unopenableError, withoutLease } from './login-renewal.ts';
import {
  type AuthChangeListener,
  createChangeListeners,
  type DocumentCache,
  openDocumentCache,
  type SealingKeys,
} from './sealed-documents.ts';

interface LoginsOptions {
  readonly store: SessionStore;
  readonly keys: SealingKeys;
  readonly onEvent: (event: LoginEvent, which: Pick<LoginFacts, 'userId' | 'server' | 'issuer' | 'why'>) => void;
  /** Finds the current definition of a server. */
  readonly findServer: (name: string) => LoginServer | undefined;
  readonly resolve?: ResolveHost;
  readonly now?: () => number;
}

export type LoginEvent =
  | 'login-started'
  | 'login-made'
  | 'login-renewed'
  | 'login-lost'
  | 'login-removed'
  | 'login-wanted';

export interface LoginRedirect {
  /** The address for the user's browser. */
  readonly authorizationUrl: string;
  readonly redirectUri: string;
}

/** A login that has been started and not ended. */
export type PendingLogin = Pick<LoginFacts, 'userId' | 'server' | 'issuer'>;

type ExpectedLogin = Partial<Pick<LoginAttempt, 'userId' | 'server' | 'browser'>>;

/** Logins of users at the authorization servers of upstreams: one for each user and server. */
export interface Logins {
  /** The bearer token for the server; a promise only where it has to be waited for. */
  findToken(userId: string, server: LoginServer): string | undefined | Promise<string | undefined>;
  /** True when the user has a login, lost or not. Answers without waiting. */
  has(userId: string, server: string): boolean;
  /** Changes with every login and stays the same through its renewals; empty where there is none. */
  revision(userId: string, server: string): string;
  /** Finds another token after the server refused one; undefined when there is none. */
  replaceToken(
    userId: string,
    server: LoginServer,
    refused: string,
    challenge: Challenge | undefined,
  ): Promise<string | undefined>;
  /** Adds scopes that the server wants beyond those granted; the next login asks for them. */
  addWantedScopes(userId: string, server: string, scopes: readonly string[]): Promise<void>;
  start(userId: string, server: LoginServer, returnTarget: ReturnTarget, browser?: string): Promise<LoginRedirect>;
  /**
   * Shows the login that `complete` would end, so that a person can be asked first. A browser in which it was not
   * started uses it up.
   */
  preview(callback: string, expected: Pick<ExpectedLogin, 'browser'>): Promise<PendingLogin>;
  /** Completes a login. `callback` is the whole address that the user came back to. */
  complete(callback: string, expected: ExpectedLogin): Promise<LoginView>;
  /** False when there was none. */
  remove(userId: string, server: string): Promise<boolean>;
  list(): LoginView[];
  /** The tickets in links that start a login in a browser. */
  readonly tickets: LoginTickets;
  /** Reports logins that were made, replaced or removed, but not renewals. */
  onChange(listener: AuthChangeListener): void;
  close(): void;
}

const maxStarts = 20;
const startWindowMs = 600_000;

export async function openLogins(options: LoginsOptions): Promise<Logins> {
  const { store, keys, onEvent, now = () => Date.now() } = options;
  const opened = new WeakMap<object, Login>();
  const { cache, listeners } = await openLoginCache(store);
  const { isIssuerAllowed, fetchForLogin, fetchForServer, hostsOf } = createLoginNetwork(options);
  const attempts = createLoginAttempts(store, keys, now);
  const mayStart = createStartLimiter(maxStarts, startWindowMs, now);
  const renewal = createLoginRenewal({
    store,
    keys,
    now,
    onEvent,
    async requestTokens(login, refreshToken) {
      if (!isIssuerAllowed(login)) throw new RenewalError('refused', 'the operator named another authorization server');
      return renewToken(login, refreshToken, fetchForLogin(login.server, login.url));
    },
  });

  function findLogin(userId: string, server: string): Login | undefined {
    const [found] = cache.listUnder(credentialKeyPrefix(userId, server));
    if (found === undefined) return undefined;
    const { sealed } = found;
    const login = sealed === undefined ? undefined : (opened.get(sealed) ?? openLogin(sealed, keys.current()));
    if (sealed === undefined || login === undefined) {
      throw unopenableError(server);
    }
    opened.set(sealed, login);
    return login;
  }

  async function refreshCache(userId: string, server: string): Promise<void> {
    await cache.refresh(loginKey(userId, server));
  }

  async function markLost({ id, userId, server }: Login, why: string): Promise<void> {
    const updated = await updateFacts(store, userId, server, (facts) =>
      facts.id === id ? { ...withoutLease(facts), state: 'lost', why } : undefined,
    );
    if (updated?.isWritten === true) onEvent('login-lost', updated.facts);
    if (updated !== undefined) await refreshCache(userId, server);
  }

  async function freshToken(userId: string, server: LoginServer, refused?: string): Promise<string | undefined> {
    const login = await renewal.ensureFresh(userId, server.name, refused);
    await refreshCache(userId, server.name);
    return isForServer(login, server) ? login.accessToken : undefined;
  }

  return {
    findToken(userId, server) {
      const login = findLogin(userId, server.name);
      if (!isForServer(login, server) || login.state === 'lost') return undefined;
      return renewal.isDue(login) ? freshToken(userId, server) : login.accessToken;
    },
    has: (userId, server) => cache.listUnder(credentialKeyPrefix(userId, server)).length > 0,
    revision: (userId, server) => cache.listUnder(credentialKeyPrefix(userId, server))[0]?.sealed?.facts.id ?? '',

    async replaceToken(userId, server, refused, challenge) {
      const login = findLogin(userId, server.name);
      if (!isForServer(login, server) || login.state === 'lost') return undefined;
      const resource = await discoverResource(server.url, challenge, fetchForServer(server)).catch(() => undefined);
      const isBound = server.oauth?.issuer !== undefined;
      const issuer = resource?.issuer;
      if (issuer !== undefined && !isBound && !isAllowedIssuer({ oauth: { issuer, hosts: [] } }, login.issuer)) {
        await markLost(login, 'the server has another authorization server now');
        return undefined;
      }
      const token = await freshToken(userId, server, refused);
      return token === refused ? undefined : token;
    },

    async addWantedScopes(userId, server, scopes) {
      const updated = await updateFacts(store, userId, server, (facts) => {
        // A login that is being renewed is left alone; the server will ask again.
        if (facts.lease !== undefined) return undefined;
        const wanted = [...new Set([...facts.wanted, ...scopes])].filter((each) => !facts.scopes.includes(each));
        return wanted.length === facts.wanted.length ? undefined : { ...facts, wanted: wanted.slice(0, 100) };
      });
      if (updated === undefined) return;
      await refreshCache(userId, server);
      onEvent('login-wanted', updated.facts);
    },

    async start(userId, server, returnTarget, browser) {
      if (!mayStart(credentialKeyPrefix(userId, server.name))) {
        throw new AmbitError('OVERLOADED', { what: `Too many logins of this user to "${server.name}" were started.` });
      }
      const before = tryOr(() => findLogin(userId, server.name), undefined);
      const previousScopes = isForServer(before, server) ? [...before.scopes, ...before.wanted] : [];
      const loginHosts = hostsOf(server);
      const { attempt, ...more } = await startLogin({ userId, server, returnTarget, previousScopes, loginHosts });
      const bound = browser === undefined ? attempt : { ...attempt, browser: hashText(browser) };
      const state = await attempts.add(bound);
      onEvent('login-started', { userId, server: server.name, issuer: attempt.as.issuer });
      return { authorizationUrl: await more.authorizationUrl(state), redirectUri: attempt.redirectUri };
    },

    async preview(callback, expected) {
      const state = readState(callback);
      const attempt = state === undefined ? undefined : await attempts.read(state);
      if (state === undefined || attempt === undefined) throw noPendingLoginError();
      if (!matchesAttempt(attempt, expected)) {
        await attempts.take(state);
        throw noPendingLoginError();
      }
      assertRedirectUri(attempt, callback);
      return { userId: attempt.userId, server: attempt.server, issuer: attempt.as.issuer };
    },

    async complete(callback, expected) {
      const state = readState(callback);
      const attempt = state === undefined ? undefined : await attempts.take(state);
      if (state === undefined || attempt === undefined || !matchesAttempt(attempt, expected))
        throw noPendingLoginError();
      const described = options.findServer(attempt.server);
      if (described?.url.href !== attempt.url || !isAllowedIssuer(described, attempt.as.issuer)) {
        const what = `The server "${attempt.server}" was changed in the configuration in the meantime.`;
        throw new AmbitError('LOGIN_FAILED', { what });
      }
      const { facts, secrets } = await completeLogin(attempt, { callback, state }, fetchForServer(described), now());
      const text = JSON.stringify(sealLogin(facts, secrets, await keys.make()));
      const key = loginKey(facts.userId, facts.server);
      const { outcome } = await store.documents.put(loginsCollection, key, text);
      if (outcome !== 'written')
        throw new AmbitError('LOGIN_FAILED', { what: 'The store has no space for another login.' });
      onEvent('login-made', facts);
      await refreshCache(facts.userId, facts.server);
      return toLoginView(facts);
    },

    async remove(userId, server) {
      const login = tryOr(() => findLogin(userId, server), undefined);
      const { outcome } = await store.documents.delete(loginsCollection, loginKey(userId, server));
      await refreshCache(userId, server);
      if (outcome !== 'deleted') return false;
      onEvent('login-removed', { userId, server, issuer: login?.issuer ?? '' });
      if (login !== undefined && isIssuerAllowed(login)) await revokeTokens(login, fetchForLogin(server, login.url));
      return true;
    },

    list: () =>
      cache
        .listAll()
        .flatMap(({ sealed }) => (sealed === undefined ? [] : [toLoginView(sealed.facts)]))
        .sort((a, b) => (JSON.stringify([a.userId, a.server]) < JSON.stringify([b.userId, b.server]) ? -1 : 1)),
    tickets: createLoginTickets(keys, now),
    onChange: listeners.add,
    close: cache.close,
  };
}

/** Opens the cache of logins. Its listeners hear of a login that was made, replaced or removed, not of renewals. */
async function openLoginCache(store: SessionStore) {
  const listeners = createChangeListeners();
  /** The ids of the logins, by the prefix of their keys. */
  const ids = new Map<string, string>();
  let opened: DocumentCache<SealedLogin> | undefined;
  const cache = await openDocumentCache(store, loginsCollection, readLogin, async (prefix) => {
    const id = opened?.listUnder(prefix)[0]?.sealed?.facts.id ?? '';
    const before = ids.get(prefix) ?? '';
    ids.set(prefix, id);
    if (id === '') ids.delete(prefix);
    if (before !== id) await listeners.notify(prefix);
  });
  opened = cache;
  for (const { sealed } of tryOr(() => cache.listAll(), [])) {
    if (sealed !== undefined) ids.set(credentialKeyPrefix(sealed.facts.userId, sealed.facts.server), sealed.facts.id);
  }
  return { cache, listeners };
}

/** Decides where the requests of logins may go, by the definitions of their servers. */
function createLoginNetwork(options: Pick<LoginsOptions, 'findServer' | 'resolve'>) {
  function isIssuerAllowed({ server, issuer }: Login): boolean {
    const described = options.findServer(server);
    return described === undefined || isAllowedIssuer(described, issuer);
  }

  function fetchForLogin(name: string, url: string): GuardedFetch {
    const server = options.findServer(name);
    const hosts = server?.url.href === url ? (server.oauth?.hosts ?? []) : [];
    return fetchForServer({ name, url: new URL(url), oauth: { hosts } });
  }

  function hostsOf({ url, oauth }: LoginServer): LoginHosts {
    const { resolve } = options;
    return createLoginHosts({ server: url, hosts: oauth?.hosts ?? [], ...(resolve === undefined ? {} : { resolve }) });
  }

  const fetchForServer = (server: LoginServer): GuardedFetch => createGuardedFetch(hostsOf(server));

  return {
    /** False when the operator has named another authorization server since the login. */
    isIssuerAllowed,
    /** Fetches for a stored login. If its server has another definition now, only the old address is allowed. */
    fetchForLogin,
    fetchForServer,
    hostsOf,
  };
}

/** Rewrites the facts of a stored login; undefined when there is no login, or `change` returns none. */
async function updateFacts(
  store: SessionStore,
  userId: string,
  server: string,
  change: (facts: LoginFacts) => LoginFacts | undefined,
): Promise<{ readonly facts: LoginFacts; readonly isWritten: boolean } | undefined> {
  const key = loginKey(userId, server);
  const found = await store.documents.get(loginsCollection, key);
  const sealed = found === undefined ? undefined : readLogin(key, found.text);
  const facts = sealed === undefined ? undefined : change(sealed.facts);
  if (found === undefined || facts === undefined) return undefined;
  const text = JSON.stringify({ ...sealed, facts });
  const { outcome } = await store.documents.put(loginsCollection, key, text, { expectedVersion: found.version });
  return { facts, isWritten: outcome === 'written' };
}

async function revokeTokens(login: Login, fetch: GuardedFetch): Promise<void> {
  if (login.refreshToken !== undefined) await revokeToken(login, login.refreshToken, 'refresh_token', fetch);
  await revokeToken(login, login.accessToken, 'access_token', fetch);
}

function isForServer(login: Login | undefined, server: LoginServer): login is Login {
  return login?.url === server.url.href && isAllowedIssuer(server, login.issuer);
}

function matchesAttempt(attempt: LoginAttempt, { userId, server, browser }: ExpectedLogin): boolean {
  return (
    (userId === undefined || attempt.userId === userId) &&
    (server === undefined || attempt.server === server) &&
    (attempt.browser === undefined || (browser !== undefined && attempt.browser === hashText(browser)))
  );
}

function noPendingLoginError(): AmbitError {
  return new AmbitError('LOGIN_FAILED', {
    what: 'This login was not started here, has already ended, or took too long.',
  });
}

function hashText(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

function tryOr<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch {
    return otherwise;
  }
}
