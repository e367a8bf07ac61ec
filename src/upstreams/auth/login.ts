import { createHash, randomBytes } from 'node:crypto';
import type { AuthorizationServer } from 'oauth4webapi';
import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { HttpServer } from '../definition.ts';
import { credentialKeyPrefix } from './credential-target.ts';
import {
  decryptText,
  encryptText,
  openSecrets,
  readSealedFacts,
  type SealedFacts,
  type SealingKey,
  type SealingKeys,
  sealFacts,
} from './sealed-documents.ts';

export const loginsCollection = 'logins';

/** The part of a server that a login needs. */
export type LoginServer = Pick<HttpServer, 'name' | 'url' | 'oauth'>;

/** True when the operator allows logins to the server at this authorization server. */
export function isAllowedIssuer({ oauth }: Pick<LoginServer, 'oauth'>, issuer: string): boolean {
  return oauth?.issuer === undefined || trimSlash(oauth.issuer) === trimSlash(issuer);
}

/** Removes the final slash, which some issuers add in one place only. */
function trimSlash(issuer: string): string {
  return issuer.replace(/\/$/, '');
}

/** Ambit as a client of an authorization server. */
export interface LoginClient {
  readonly clientId: string;
  readonly clientSecret?: string;
  readonly method: 'none' | 'client_secret_basic' | 'client_secret_post';
}

/** The metadata of an authorization server that is stored with a login and does not change later. */
export type KnownIssuer = Pick<
  AuthorizationServer,
  | 'issuer'
  | 'authorization_endpoint'
  | 'token_endpoint'
  | 'revocation_endpoint'
  | 'authorization_response_iss_parameter_supported'
  | 'id_token_signing_alg_values_supported'
>;

export interface LoginFacts {
  /** Changes with every login and stays the same through its renewals. */
  readonly id: string;
  readonly userId: string;
  readonly server: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
  /** The scopes that the server has asked for since. */
  readonly wanted: readonly string[];
  readonly state: 'active' | 'lost';
  readonly why?: string;
  readonly madeAt: number;
  readonly renewedAt: number;
  /** Undefined where the authorization server gives no time. */
  readonly expiresAt?: number;
  /** True when each refresh token works once; undefined until the first renewal. */
  readonly rotates?: boolean;
  /** The process that renews the login, and the time until which others wait for it. */
  readonly lease?: { readonly by: string; readonly until: number };
  /** The time of the next try, after an authorization server that did not answer. */
  readonly retryAt?: number;
}

export interface LoginSecrets {
  /** The server's address when the token was made. The token is sent to no other address. */
  readonly url: string;
  readonly resource: string;
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly client: LoginClient;
  readonly as: KnownIssuer;
}

export type SealedLogin = SealedFacts<LoginFacts>;

export interface Login extends LoginFacts, LoginSecrets {}

export function loginKey(userId: string, server: string): string {
  return `${credentialKeyPrefix(userId, server)}login`;
}

export function sealLogin(facts: LoginFacts, secrets: LoginSecrets, key: SealingKey): SealedLogin {
  return sealFacts(facts, secrets, key, bindingFor(facts));
}

/** Opens a login; undefined when the current key cannot open it. */
export function openLogin(sealed: SealedLogin, key: SealingKey | undefined): Login | undefined {
  const secrets = openSecrets<LoginSecrets>(sealed, key, bindingFor(sealed.facts));
  return secrets === undefined ? undefined : { ...sealed.facts, ...secrets };
}

export function readLogin(key: string, text: string): SealedLogin | undefined {
  return readSealedFacts<LoginFacts>(text, (facts) => {
    const { id, userId, server, issuer, scopes, wanted, state, madeAt, renewedAt } = facts;
    if (![id, userId, server, issuer].every((part) => typeof part === 'string')) return false;
    if (![madeAt, renewedAt].every((part) => typeof part === 'number')) return false;
    if (!Array.isArray(scopes) || !Array.isArray(wanted) || (state !== 'active' && state !== 'lost')) return false;
    return loginKey(userId as string, server as string) === key;
  });
}

function bindingFor({ id, userId, server, issuer }: LoginFacts): readonly (string | number)[] {
  return ['ambit login', 1, id, userId, server, issuer];
}

/** A login without its secrets. */
export interface LoginView extends Pick<LoginFacts, 'userId' | 'server' | 'issuer' | 'scopes' | 'why'> {
  /** "lost" when the user has to log in again; "wanted" when the server wants more scopes than were granted. */
  readonly state: 'active' | 'lost' | 'wanted';
  readonly madeAt: string;
  readonly expiresAt?: string;
}

export function toLoginView(facts: LoginFacts): LoginView {
  const { userId, server, issuer, scopes, state, why, wanted, madeAt, expiresAt } = facts;
  return {
    userId,
    server,
    issuer,
    scopes,
    state: state === 'active' && wanted.length > 0 ? 'wanted' : state,
    ...(why === undefined ? {} : { why }),
    madeAt: new Date(madeAt).toISOString(),
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
  };
}

/** The tickets in links that let a browser start a login, for one user and one server. Nothing is stored. */
export interface LoginTickets {
  make(userId: string, server: string): Promise<string>;
  /** Reads a ticket; undefined when it was not made here or has expired. */
  read(ticket: string): { readonly userId: string; readonly server: string } | undefined;
}

const ticketLifeMs = 600_000;

const ivBytes = 12;

const ticketBinding = Buffer.from(JSON.stringify(['ambit login link', 1]));

/** A started login, with everything that its completion is checked against. */
export interface LoginAttempt extends Pick<LoginSecrets, 'url' | 'resource' | 'client' | 'as'> {
  readonly userId: string;
  readonly server: string;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly scopes: readonly string[];
  /** The browser in which it was started, as a hash: only this one may complete it. */
  readonly browser?: string;
}

const collection = 'login-attempts';
const attemptLifeMs = 600_000;

interface AttemptExpiry {
  readonly expiresAt: number;
}

/** Keeps the started logins in the store: another process may complete them. */
export function createLoginAttempts(store: SessionStore, keys: SealingKeys, now: () => number) {
  const isFacts = ({ expiresAt }: Record<string, unknown>) => typeof expiresAt === 'number';
  const bindingFor = (key: string) => ['ambit login attempt', 1, key];

  /** Removes the attempts that were never completed. */
  async function removeExpired(): Promise<void> {
    const { documents } = await store.documents.list(collection, { limit: 1000 });
    for (const { key, text, version } of documents) {
      const expiresAt = readSealedFacts<AttemptExpiry>(text, isFacts)?.facts.expiresAt ?? 0;
      if (expiresAt <= now()) await store.documents.delete(collection, key, { expectedVersion: version });
    }
  }

  async function find(state: string) {
    if (!/^[\w-]{43}$/.test(state)) return undefined;
    return store.documents.get(collection, attemptKey(state));
  }

  function openAttempt(key: string, text: string): LoginAttempt | undefined {
    const sealed = readSealedFacts<AttemptExpiry>(text, isFacts);
    if (sealed === undefined || sealed.facts.expiresAt <= now()) return undefined;
    return openSecrets<LoginAttempt>(sealed, keys.current(), bindingFor(key));
  }

  return {
    /** Stores an attempt and returns its `state`, which nobody can guess and the store does not hold. */
    async add(attempt: LoginAttempt): Promise<string> {
      await removeExpired();
      const state = randomBytes(32).toString('base64url');
      const key = attemptKey(state);
      const facts: AttemptExpiry = { expiresAt: now() + attemptLifeMs };
      const sealed = sealFacts(facts, attempt, await keys.make(), bindingFor(key));
      const { outcome } = await store.documents.put(collection, key, JSON.stringify(sealed), { expectedVersion: 0 });
      if (outcome !== 'written') throw new AmbitError('OVERLOADED', { what: 'Too many logins are in progress.' });
      return state;
    },
    /** Reads an attempt without using it up, so that a person can be asked first. */
    async read(state: string): Promise<LoginAttempt | undefined> {
      const found = await find(state);
      return found === undefined ? undefined : openAttempt(found.key, found.text);
    },
    /** Takes an attempt, once; undefined when it was used, has expired, or never existed. */
    async take(state: string): Promise<LoginAttempt | undefined> {
      const found = await find(state);
      if (found === undefined) return undefined;
      const { key, text, version } = found;
      const { outcome } = await store.documents.delete(collection, key, { expectedVersion: version });
      return outcome === 'deleted' ? openAttempt(key, text) : undefined;
    },
  };
}

function attemptKey(state: string): string {
  return createHash('sha256').update(state).digest('base64url');
}

/** Limits the starts under one name in a time window: a login link could be opened again and again. */
export function createStartLimiter(max: number, windowMs: number, now: () => number): (name: string) => boolean {
  let starts = new Map<string, number>();
  let since = now();
  return (name) => {
    if (now() - since >= windowMs) {
      starts = new Map();
      since = now();
    }
    const count = (starts.get(name) ?? 0) + 1;
    if (count > max) return false;
    starts.set(name, count);
    return true;
  };
}

export function createLoginTickets(keys: SealingKeys, now: () => number): LoginTickets {
  return {
    async make(userId, server) {
      const said = JSON.stringify({ userId, server, until: now() + ticketLifeMs });
      const { iv, data } = encryptText(said, await keys.make(), ticketBinding);
      return Buffer.concat([iv, data]).toString('base64url');
    },
    read(ticket) {
      const key = keys.current();
      const bytes = Buffer.from(ticket, 'base64url');
      if (key === undefined || ticket.length > 4096) return undefined;
      const said = decryptText({ iv: bytes.subarray(0, ivBytes), data: bytes.subarray(ivBytes) }, key, ticketBinding);
      if (said === undefined) return undefined;
      const { userId, server, until } = JSON.parse(said) as { userId: string; server: string; until: number };
      return until > now() ? { userId, server } : undefined;
    },
  };
}
