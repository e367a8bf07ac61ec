import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { ReturnTarget } from './choose-client.ts';
import { type Challenge, discoverResource } from './discovery.ts';
import { type DocumentCache, openDocumentCache } from './document-cache.ts';
import {
  createGuardedFetch,
  createLoginHosts,
  type GuardedFetch,
  type LoginHosts,
  type ResolveHost,
} from './guarded-fetch.ts';
import {
  isAllowedIssuer,
  type Login,
  type LoginFacts,
  type LoginServer,
  type LoginView,
  loginKey,
  loginPrefix,
  loginsCollection,
  openLogin,
  readLogin,
  type SealedLogin,
  sealLogin,
  toLoginView,
} from './login.ts';
import {
  createLoginAttempts,
  createLoginTickets,
  createStartLimiter,
  type LoginAttempt,
  type LoginTickets,
} from './login-attempts.ts';
import { assertRedirectUri, completeLogin, readState, startLogin } from './login-flow.ts';
import { createLoginRenewal, describeUnopenable, withoutLease } from './login-renewal.ts';
import type { SealingKeys } from './sealing-key.ts';
import { RenewalError, renewToken, revokeToken } from './token-requests.ts';

export interface LoginsOptions {
  readonly store: SessionStore;
  readonly keys: SealingKeys;
  readonly onEvent: (event: LoginEvent, which: Pick<LoginFacts, 'userId' | 'server' | 'issuer' | 'why'>) => void;
  /** The server as it is described now. */
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
  /** Where the user's browser goes. */
  readonly authorizationUrl: string;
  readonly redirectUri: string;
}

/** A login that has been started and not ended. */
export interface PendingLogin {
  readonly userId: string;
  readonly server: string;
  readonly issuer: string;
}

interface ExpectedLogin {
  readonly userId?: string;
  readonly server?: string;
  readonly browser?: string;
}

/** Logins of users at the authorization servers of upstreams: one for each user and server. */
export interface Logins {
  /** The bearer token for the server; a promise only where it has to be waited for. */
  findToken(userId: string, server: LoginServer): string | undefined | Promise<string | undefined>;
  /** Whether the user has one, lost or not; without waiting. */
  has(userId: string, server: string): boolean;
  /** Another with every login, the same through its renewals; empty where there is none. */
  revision(userId: string, server: string): string;
  /** The server refused that token: another, if there is one to be had. */
  replaceToken(
    userId: string,
    server: LoginServer,
    refused: string,
    challenge: Challenge | undefined,
  ): Promise<string | undefined>;
  /** The server wants more than was agreed to: the next login asks for that too. */
  addWantedScopes(userId: string, server: string, scopes: readonly string[]): Promise<void>;
  start(userId: string, server: LoginServer, back: ReturnTarget, browser?: string): Promise<LoginRedirect>;
  /**
   * What `complete` would end, for a person to be asked first. It stays as it is, except that a browser it was not
   * started in uses it up.
   */
  preview(callback: string, expected: Pick<ExpectedLogin, 'browser'>): Promise<PendingLogin>;
  /** `callback` is the address the user came back to, whole. */
  complete(callback: string, expected: ExpectedLogin): Promise<LoginView>;
  /** False when there was none. */
  remove(userId: string, server: string): Promise<boolean>;
  list(): LoginView[];
  /** For links that start a login in a browser. */
  readonly tickets: LoginTickets;
  /** Tells whose login to which server was made, is another now, or gone; not of renewals. */
  onChange(listener: (concerns: (userId: string, server: string) => boolean, server: string) => Promise<void>): void;
  close(): void;
}

const maxStarts = 20;
const startWindowMs = 600_000;

type LoginListener = Parameters<Logins['onChange']>[0];

export async function openLogins(options: LoginsOptions): Promise<Logins> {
  const { store, keys, onEvent: told, now = () => Date.now() } = options;
  const listeners = new Set<LoginListener>();
  const ids = new Map<string, string>();
  const opened = new WeakMap<object, Login>();

  let openedCache: DocumentCache<SealedLogin> | undefined;
  const cache = await openDocumentCache(store, loginsCollection, readLogin, async (prefix) => {
    const id = openedCache?.listUnder(prefix)[0]?.sealed?.facts.id ?? '';
    const before = ids.get(prefix) ?? '';
    ids.set(prefix, id);
    if (id === '') ids.delete(prefix);
    if (before === id) return;
    const server = prefix.split('/')[1] ?? '';
    const concerns = (userId: string, name: string) => loginPrefix(userId, name) === prefix;
    await Promise.all([...listeners].map((listener) => listener(concerns, server)));
  });
  openedCache = cache;
  for (const { sealed } of tryOr(() => cache.listAll(), [])) {
    if (sealed !== undefined) ids.set(loginPrefix(sealed.facts.userId, sealed.facts.server), sealed.facts.id);
  }
  const attempts = createLoginAttempts(store, keys, now);
  const mayStart = createStartLimiter(maxStarts, startWindowMs, now);
  const renewal = createLoginRenewal({
    store,
    keys,
    now,
    onEvent: told,
    async requestTokens(login, refreshToken) {
      if (!isIssuerAllowed(login)) throw new RenewalError('refused', 'the operator named another authorization server');
      return renewToken(login, refreshToken, fetchForLogin(login.server, login.url));
    },
  });

  /** Nothing of a login goes to an authorization server that the operator has since replaced by another. */
  function isIssuerAllowed({ server, issuer }: Login): boolean {
    const described = options.findServer(server);
    return described === undefined || isAllowedIssuer(described, issuer);
  }

  /** Of a server that is described otherwise now, or not at all, nothing but its old address counts. */
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

  function findLogin(userId: string, server: string): Login | undefined {
    const [found] = cache.listUnder(loginPrefix(userId, server));
    if (found === undefined) return undefined;
    const { sealed } = found;
    const login = sealed === undefined ? undefined : (opened.get(sealed) ?? openLogin(sealed, keys.current()));
    if (sealed === undefined || login === undefined) {
      throw new AmbitError('CREDENTIAL_UNUSABLE', { what: describeUnopenable(server) });
    }
    opened.set(sealed, login);
    return login;
  }

  const isForServer = (login: Login | undefined, server: LoginServer): login is Login =>
    login?.url === server.url.href && isAllowedIssuer(server, login.issuer);

  async function refreshCache(userId: string, server: string): Promise<void> {
    await cache.refresh(loginKey(userId, server));
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
    has: (userId, server) => cache.listUnder(loginPrefix(userId, server)).length > 0,
    revision: (userId, server) => cache.listUnder(loginPrefix(userId, server))[0]?.sealed?.facts.id ?? '',

    async replaceToken(userId, server, refused, challenge) {
      const login = findLogin(userId, server.name);
      if (!isForServer(login, server) || login.state === 'lost') return undefined;
      const now = await discoverResource(server.url, challenge, fetchForServer(server)).catch(() => undefined);
      const isBound = server.oauth?.issuer !== undefined;
      if (
        now !== undefined &&
        !isBound &&
        !isAllowedIssuer({ oauth: { issuer: now.issuer, hosts: [] } }, login.issuer)
      ) {
        await markLost(login, 'the server has another authorization server now');
        return undefined;
      }
      const token = await freshToken(userId, server, refused);
      return token === refused ? undefined : token;
    },

    async addWantedScopes(userId, server, scopes) {
      const key = loginKey(userId, server);
      const found = await store.documents.get(loginsCollection, key);
      const sealed = found === undefined ? undefined : readLogin(key, found.text);
      // What is being renewed is left to whoever does that; the server will say it again.
      if (found === undefined || sealed === undefined || sealed.facts.lease !== undefined) return;
      const { facts } = sealed;
      const wanted = [...new Set([...facts.wanted, ...scopes])].filter((each) => !facts.scopes.includes(each));
      if (wanted.length === facts.wanted.length) return;
      const text = JSON.stringify({ ...sealed, facts: { ...facts, wanted: wanted.slice(0, 100) } });
      await store.documents.put(loginsCollection, key, text, { expectedVersion: found.version });
      await refreshCache(userId, server);
      told('login-wanted', facts);
    },

    async start(userId, server, back, browser) {
      if (!mayStart(loginPrefix(userId, server.name))) {
        throw new AmbitError('OVERLOADED', { what: `Too many logins of this user to "${server.name}" were started.` });
      }
      const before = tryOr(() => findLogin(userId, server.name), undefined);
      const agreed = isForServer(before, server) ? [...before.scopes, ...before.wanted] : [];
      const { attempt, ...more } = await startLogin({
        userId,
        server,
        returnTarget: back,
        previousScopes: agreed,
        loginHosts: hostsOf(server),
      });
      const bound = browser === undefined ? attempt : { ...attempt, browser: hashText(browser) };
      const state = await attempts.add(bound);
      told('login-started', { userId, server: server.name, issuer: attempt.as.issuer });
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
        const what = `The server "${attempt.server}" has been described anew meanwhile.`;
        throw new AmbitError('LOGIN_FAILED', { what });
      }
      const { facts, secrets } = await completeLogin(attempt, { callback, state }, fetchForServer(described), now());
      const text = JSON.stringify(sealLogin(facts, secrets, await keys.make()));
      const key = loginKey(facts.userId, facts.server);
      const { outcome } = await store.documents.put(loginsCollection, key, text);
      if (outcome !== 'written')
        throw new AmbitError('LOGIN_FAILED', { what: 'There is no room for a further login.' });
      told('login-made', facts);
      await refreshCache(facts.userId, facts.server);
      return toLoginView(facts);
    },

    async remove(userId, server) {
      const login = tryOr(() => findLogin(userId, server), undefined);
      const { outcome } = await store.documents.delete(loginsCollection, loginKey(userId, server));
      await refreshCache(userId, server);
      if (outcome !== 'deleted') return false;
      told('login-removed', { userId, server, issuer: login?.issuer ?? '' });
      if (login !== undefined && isIssuerAllowed(login)) {
        const fetch = fetchForLogin(server, login.url);
        if (login.refreshToken !== undefined) await revokeToken(login, login.refreshToken, 'refresh_token', fetch);
        await revokeToken(login, login.accessToken, 'access_token', fetch);
      }
      return true;
    },

    list: () =>
      cache
        .listAll()
        .flatMap(({ sealed }) => (sealed === undefined ? [] : [toLoginView(sealed.facts)]))
        .sort((a, b) => (JSON.stringify([a.userId, a.server]) < JSON.stringify([b.userId, b.server]) ? -1 : 1)),
    tickets: createLoginTickets(keys, now),
    onChange: (listener) => void listeners.add(listener),
    close: cache.close,
  };

  async function markLost(login: Login, why: string): Promise<void> {
    const key = loginKey(login.userId, login.server);
    const found = await store.documents.get(loginsCollection, key);
    const sealed = found === undefined ? undefined : readLogin(key, found.text);
    if (found === undefined || sealed === undefined || sealed.facts.id !== login.id) return;
    const facts: LoginFacts = { ...withoutLease(sealed.facts), state: 'lost', why };
    const text = JSON.stringify({ ...sealed, facts });
    const put = await store.documents.put(loginsCollection, key, text, { expectedVersion: found.version });
    if (put.outcome === 'written') told('login-lost', facts);
    await refreshCache(login.userId, login.server);
  }
}

function matchesAttempt(attempt: LoginAttempt, { userId, server, browser }: ExpectedLogin): boolean {
  return (
    (userId === undefined || attempt.userId === userId) &&
    (server === undefined || attempt.server === server) &&
    (attempt.browser === undefined || (browser !== undefined && attempt.browser === hashText(browser)))
  );
}

function noPendingLoginError(): AmbitError {
  return new AmbitError('LOGIN_FAILED', { what: 'This login was not started here, has ended, or took too long.' });
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
