import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { Return } from './choose-client.ts';
import { type Challenge, discoverResource } from './discovery.ts';
import { type HeldDocuments, holdDocuments } from './document-cache.ts';
import { createGuardedFetch, createReach, type GuardedFetch, type Reach, type ResolveHost } from './guarded-fetch.ts';
import {
  type Login,
  type LoginFacts,
  type LoginServer,
  type LoginView,
  loginKey,
  loginPrefix,
  loginsCollection,
  loginView,
  mayLogInAt,
  openLogin,
  readLogin,
  type SealedLogin,
  sealLogin,
} from './login.ts';
import { type Attempt, createAttempts, createPace, createTickets, type Tickets } from './login-attempts.ts';
import { assertWayBack, beginLogin, endLogin, stateIn } from './login-flow.ts';
import { cannotOpen, createRenewal, factsOf } from './login-renewal.ts';
import type { SealingKeys } from './sealing-key.ts';
import { NotRenewed, renew, revoke } from './token-requests.ts';

export interface LoginsOptions {
  readonly store: SessionStore;
  readonly keys: SealingKeys;
  readonly told: (event: LoginEvent, which: Pick<LoginFacts, 'userId' | 'server' | 'issuer' | 'why'>) => void;
  /** The server as it is described now. */
  readonly servers: (name: string) => LoginServer | undefined;
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

export interface Started {
  /** Where the user's browser goes. */
  readonly authorizationUrl: string;
  readonly redirectUri: string;
}

/** A login that has been started and not ended. */
export interface UnderWay {
  readonly userId: string;
  readonly server: string;
  readonly issuer: string;
}

interface Expected {
  readonly userId?: string;
  readonly server?: string;
  readonly browser?: string;
}

/** Logins of users at the authorization servers of upstreams: one for each user and server. */
export interface Logins {
  /** The bearer token for the server; a promise only where it has to be waited for. */
  token(userId: string, server: LoginServer): string | undefined | Promise<string | undefined>;
  /** Whether the user has one, lost or not; without waiting. */
  has(userId: string, server: string): boolean;
  /** Another with every login, the same through its renewals; empty where there is none. */
  revision(userId: string, server: string): string;
  /** The server refused that token: another, if there is one to be had. */
  replace(
    userId: string,
    server: LoginServer,
    refused: string,
    challenge: Challenge | undefined,
  ): Promise<string | undefined>;
  /** The server wants more than was agreed to: the next login asks for that too. */
  want(userId: string, server: string, scopes: readonly string[]): Promise<void>;
  start(userId: string, server: LoginServer, back: Return, browser?: string): Promise<Started>;
  /**
   * What `complete` would end, for a person to be asked first. It stays as it is, except that a browser it was not
   * started in uses it up.
   */
  look(callback: string, expected: Pick<Expected, 'browser'>): Promise<UnderWay>;
  /** `callback` is the address the user came back to, whole. */
  complete(callback: string, expected: Expected): Promise<LoginView>;
  /** False when there was none. */
  remove(userId: string, server: string): Promise<boolean>;
  list(): LoginView[];
  /** For links that start a login in a browser. */
  readonly tickets: Tickets;
  /** Tells whose login to which server was made, is another now, or gone; not of renewals. */
  onChange(listener: (concerns: (userId: string, server: string) => boolean, server: string) => Promise<void>): void;
  close(): void;
}

const mostBegun = 20;
const spanMs = 600_000;

type Listener = Parameters<Logins['onChange']>[0];

export async function openLogins(options: LoginsOptions): Promise<Logins> {
  const { store, keys, told, now = () => Date.now() } = options;
  const listeners = new Set<Listener>();
  const ids = new Map<string, string>();
  const opened = new WeakMap<object, Login>();

  let holding: HeldDocuments<SealedLogin> | undefined;
  const held = await holdDocuments(store, loginsCollection, readLogin, async (prefix) => {
    const id = holding?.under(prefix)[0]?.sealed?.facts.id ?? '';
    const before = ids.get(prefix) ?? '';
    ids.set(prefix, id);
    if (id === '') ids.delete(prefix);
    if (before === id) return;
    const server = prefix.split('/')[1] ?? '';
    const concerns = (userId: string, name: string) => loginPrefix(userId, name) === prefix;
    await Promise.all([...listeners].map((listener) => listener(concerns, server)));
  });
  holding = held;
  for (const { sealed } of safely(() => held.all(), [])) {
    if (sealed !== undefined) ids.set(loginPrefix(sealed.facts.userId, sealed.facts.server), sealed.facts.id);
  }
  const attempts = createAttempts(store, keys, now);
  const mayBegin = createPace(mostBegun, spanMs, now);
  const renewal = createRenewal({
    store,
    keys,
    now,
    told,
    async ask(login, refreshToken) {
      if (!isAllowed(login)) throw new NotRenewed('refused', 'the operator named another authorization server');
      return renew(login, refreshToken, fetchFor(login.server, login.url));
    },
  });

  /** Nothing of a login goes to an authorization server that the operator has since replaced by another. */
  function isAllowed({ server, issuer }: Login): boolean {
    const described = options.servers(server);
    return described === undefined || mayLogInAt(described, issuer);
  }

  /** Of a server that is described otherwise now, or not at all, nothing but its old address counts. */
  function fetchFor(name: string, url: string): GuardedFetch {
    const server = options.servers(name);
    const hosts = server?.url.href === url ? (server.oauth?.hosts ?? []) : [];
    return fetchOf({ name, url: new URL(url), oauth: { hosts } });
  }

  function reachOf({ url, oauth }: LoginServer): Reach {
    const { resolve } = options;
    return createReach({ server: url, hosts: oauth?.hosts ?? [], ...(resolve === undefined ? {} : { resolve }) });
  }

  const fetchOf = (server: LoginServer): GuardedFetch => createGuardedFetch(reachOf(server));

  function known(userId: string, server: string): Login | undefined {
    const [found] = held.under(loginPrefix(userId, server));
    if (found === undefined) return undefined;
    const { sealed } = found;
    const login = sealed === undefined ? undefined : (opened.get(sealed) ?? openLogin(sealed, keys.current()));
    if (sealed === undefined || login === undefined) {
      throw new AmbitError('CREDENTIAL_UNUSABLE', { what: cannotOpen(server) });
    }
    opened.set(sealed, login);
    return login;
  }

  const isFor = (login: Login | undefined, server: LoginServer): login is Login =>
    login?.url === server.url.href && mayLogInAt(server, login.issuer);

  async function followed(userId: string, server: string): Promise<void> {
    await held.refresh(loginKey(userId, server));
  }

  async function freshToken(userId: string, server: LoginServer, refused?: string): Promise<string | undefined> {
    const login = await renewal.fresh(userId, server.name, refused);
    await followed(userId, server.name);
    return isFor(login, server) ? login.accessToken : undefined;
  }

  return {
    token(userId, server) {
      const login = known(userId, server.name);
      if (!isFor(login, server) || login.state === 'lost') return undefined;
      return renewal.isDue(login) ? freshToken(userId, server) : login.accessToken;
    },
    has: (userId, server) => held.under(loginPrefix(userId, server)).length > 0,
    revision: (userId, server) => held.under(loginPrefix(userId, server))[0]?.sealed?.facts.id ?? '',

    async replace(userId, server, refused, challenge) {
      const login = known(userId, server.name);
      if (!isFor(login, server) || login.state === 'lost') return undefined;
      const now = await discoverResource(server.url, challenge, fetchOf(server)).catch(() => undefined);
      const isBound = server.oauth?.issuer !== undefined;
      if (now !== undefined && !isBound && !mayLogInAt({ oauth: { issuer: now.issuer, hosts: [] } }, login.issuer)) {
        await lose(login, 'the server has another authorization server now');
        return undefined;
      }
      const token = await freshToken(userId, server, refused);
      return token === refused ? undefined : token;
    },

    async want(userId, server, scopes) {
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
      await followed(userId, server);
      told('login-wanted', facts);
    },

    async start(userId, server, back, browser) {
      if (!mayBegin(loginPrefix(userId, server.name))) {
        throw new AmbitError('OVERLOADED', { what: `Too many logins of this user to "${server.name}" were started.` });
      }
      const before = safely(() => known(userId, server.name), undefined);
      const agreed = isFor(before, server) ? [...before.scopes, ...before.wanted] : [];
      const { attempt, ...more } = await beginLogin({ userId, server, back, agreed, reach: reachOf(server) });
      const bound = browser === undefined ? attempt : { ...attempt, browser: hashOf(browser) };
      const state = await attempts.keep(bound);
      told('login-started', { userId, server: server.name, issuer: attempt.as.issuer });
      return { authorizationUrl: await more.authorizationUrl(state), redirectUri: attempt.redirectUri };
    },

    async look(callback, expected) {
      const state = stateIn(callback);
      const attempt = state === undefined ? undefined : await attempts.read(state);
      if (state === undefined || attempt === undefined) throw notUnderWay();
      if (!fits(attempt, expected)) {
        await attempts.take(state);
        throw notUnderWay();
      }
      assertWayBack(attempt, callback);
      return { userId: attempt.userId, server: attempt.server, issuer: attempt.as.issuer };
    },

    async complete(callback, expected) {
      const state = stateIn(callback);
      const attempt = state === undefined ? undefined : await attempts.take(state);
      if (state === undefined || attempt === undefined || !fits(attempt, expected)) throw notUnderWay();
      const described = options.servers(attempt.server);
      if (described?.url.href !== attempt.url || !mayLogInAt(described, attempt.as.issuer)) {
        const what = `The server "${attempt.server}" has been described anew meanwhile.`;
        throw new AmbitError('LOGIN_FAILED', { what });
      }
      const { facts, secrets } = await endLogin(attempt, { callback, state }, fetchOf(described), now());
      const text = JSON.stringify(sealLogin(facts, secrets, await keys.make()));
      const key = loginKey(facts.userId, facts.server);
      const { outcome } = await store.documents.put(loginsCollection, key, text);
      if (outcome !== 'written')
        throw new AmbitError('LOGIN_FAILED', { what: 'There is no room for a further login.' });
      told('login-made', facts);
      await followed(facts.userId, facts.server);
      return loginView(facts);
    },

    async remove(userId, server) {
      const login = safely(() => known(userId, server), undefined);
      const { outcome } = await store.documents.delete(loginsCollection, loginKey(userId, server));
      await followed(userId, server);
      if (outcome !== 'deleted') return false;
      told('login-removed', { userId, server, issuer: login?.issuer ?? '' });
      if (login !== undefined && isAllowed(login)) {
        const fetch = fetchFor(server, login.url);
        if (login.refreshToken !== undefined) await revoke(login, login.refreshToken, 'refresh_token', fetch);
        await revoke(login, login.accessToken, 'access_token', fetch);
      }
      return true;
    },

    list: () =>
      held
        .all()
        .flatMap(({ sealed }) => (sealed === undefined ? [] : [loginView(sealed.facts)]))
        .sort((a, b) => (JSON.stringify([a.userId, a.server]) < JSON.stringify([b.userId, b.server]) ? -1 : 1)),
    tickets: createTickets(keys, now),
    onChange: (listener) => void listeners.add(listener),
    close: held.close,
  };

  async function lose(login: Login, why: string): Promise<void> {
    const key = loginKey(login.userId, login.server);
    const found = await store.documents.get(loginsCollection, key);
    const sealed = found === undefined ? undefined : readLogin(key, found.text);
    if (found === undefined || sealed === undefined || sealed.facts.id !== login.id) return;
    const facts: LoginFacts = { ...factsOf(sealed.facts), state: 'lost', why };
    const text = JSON.stringify({ ...sealed, facts });
    const put = await store.documents.put(loginsCollection, key, text, { expectedVersion: found.version });
    if (put.outcome === 'written') told('login-lost', facts);
    await followed(login.userId, login.server);
  }
}

function fits(attempt: Attempt, { userId, server, browser }: Expected): boolean {
  return (
    (userId === undefined || attempt.userId === userId) &&
    (server === undefined || attempt.server === server) &&
    (attempt.browser === undefined || (browser !== undefined && attempt.browser === hashOf(browser)))
  );
}

function notUnderWay(): AmbitError {
  return new AmbitError('LOGIN_FAILED', { what: 'This login was not started here, has ended, or took too long.' });
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

function safely<T>(look: () => T, otherwise: T): T {
  try {
    return look();
  } catch {
    return otherwise;
  }
}
