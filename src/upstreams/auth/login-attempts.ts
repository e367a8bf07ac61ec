import { createHash, randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { KnownIssuer, LoginClient } from './login.ts';
import { decryptText, encryptText, openSecrets, readSealedFacts, sealFacts } from './seal.ts';
import type { SealingKeys } from './sealing-key.ts';

/** Part of a link that lets a browser start a login: for one user and one server, for a while. Nothing is kept of it. */
export interface LoginTickets {
  make(userId: string, server: string): Promise<string>;
  /** Undefined when it was not made here, or ran out. */
  read(ticket: string): { readonly userId: string; readonly server: string } | undefined;
}

const ticketLifeMs = 600_000;

const ivBytes = 12;

const ticketBinding = Buffer.from(JSON.stringify(['ambit login link', 1]));

/** A login that was started: all that its end is checked against. */
export interface LoginAttempt {
  readonly userId: string;
  readonly server: string;
  readonly url: string;
  readonly resource: string;
  readonly verifier: string;
  readonly redirectUri: string;
  readonly client: LoginClient;
  readonly as: KnownIssuer;
  readonly scopes: readonly string[];
  /** Only the browser that holds this may end it, where it was started in one. */
  readonly browser?: string;
}

/** Logins under way, in the store: one may end in another process than it was started in. */
export interface LoginAttempts {
  /** The `state` to go along: nobody can guess it, and the store does not know it. */
  add(attempt: LoginAttempt): Promise<string>;
  /** The same without using it up, so that a person can be asked first. */
  read(state: string): Promise<LoginAttempt | undefined>;
  /** Good for one use, by whomever; undefined when it was used, ran out, or never was. */
  take(state: string): Promise<LoginAttempt | undefined>;
}

const collection = 'login-attempts';
const attemptLifeMs = 600_000;

interface AttemptExpiry {
  readonly expiresAt: number;
}

export function createLoginAttempts(
  store: SessionStore,
  keys: SealingKeys,
  now: () => number = () => Date.now(),
): LoginAttempts {
  const isFacts = ({ expiresAt }: Record<string, unknown>) => typeof expiresAt === 'number';
  const bindingFor = (key: string) => ['ambit login attempt', 1, key];

  /** What was never ended would fill the store. */
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
    async add(attempt) {
      await removeExpired();
      const state = randomBytes(32).toString('base64url');
      const key = attemptKey(state);
      const facts: AttemptExpiry = { expiresAt: now() + attemptLifeMs };
      const sealed = sealFacts(facts, attempt, await keys.make(), bindingFor(key));
      const { outcome } = await store.documents.put(collection, key, JSON.stringify(sealed), { expectedVersion: 0 });
      if (outcome !== 'written') throw new AmbitError('OVERLOADED', { what: 'Too many logins are under way.' });
      return state;
    },
    async read(state) {
      const found = await find(state);
      return found === undefined ? undefined : openAttempt(found.key, found.text);
    },
    async take(state) {
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

/** How often something may be begun under one name: whoever holds a link, or an agent that goes on asking, is slowed down. */
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
