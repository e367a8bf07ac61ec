import { createHash, randomBytes } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { LoginSecrets } from './login.ts';
import { decryptText, encryptText, openSecrets, readSealedFacts, sealFacts } from './seal.ts';
import type { SealingKeys } from './sealing-key.ts';

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
