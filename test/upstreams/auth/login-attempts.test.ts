import { createSecretKey } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import {
  createLoginAttempts,
  createLoginTickets,
  createStartLimiter,
  type LoginAttempt,
} from '../../../src/upstreams/auth/login.ts';
import type { SealingKeys } from '../../../src/upstreams/auth/sealed-documents.ts';

const tenMinutes = 600_000;
const key = { id: 'k', secret: createSecretKey(Buffer.alloc(32, 7)) };
const keys: SealingKeys = { current: () => key, make: async () => key };
const attempt: LoginAttempt = {
  userId: 'ada',
  server: 'notes',
  url: 'https://notes.example/mcp',
  resource: 'https://notes.example/mcp',
  verifier: 'the-code-verifier',
  redirectUri: 'http://127.0.0.1:9/callback',
  client: { clientId: 'c', method: 'none' },
  as: { issuer: 'https://as.example' },
  scopes: ['read'],
};
let clock: number;
let store: SessionStore;

beforeEach(() => {
  clock = 1_000_000;
  store = openMemoryStore({ now: () => clock });
});

const attempts = () => createLoginAttempts(store, keys, () => clock);
const inStore = async () => (await store.documents.list('login-attempts')).documents;

test('P14: a state is refused from ten minutes after it was made', async () => {
  const [inTime, late] = [await attempts().add(attempt), await attempts().add(attempt)];
  clock += tenMinutes - 1;
  expect(await attempts().take(inTime)).toEqual(attempt);
  clock += 1;
  expect(await attempts().take(late)).toBeUndefined();
  expect(await inStore()).toEqual([]);
});

test('P14: one of many concurrent requests with the same state gets the login', async () => {
  const state = await attempts().add(attempt);
  const taken = await Promise.all(Array.from({ length: 10 }, () => attempts().take(state)));
  expect(taken.filter((each) => each !== undefined)).toEqual([attempt]);
});

test('P14: a login that is moved to another state in the store cannot be opened there', async () => {
  const [ofAda, ofEve] = [await attempts().add(attempt), await attempts().add({ ...attempt, userId: 'eve' })];
  const [one, other] = await inStore();
  await store.documents.put('login-attempts', one?.key ?? '', other?.text ?? '');
  await store.documents.put('login-attempts', other?.key ?? '', one?.text ?? '');
  for (const state of [ofAda, ofEve]) expect(await attempts().take(state)).toBeUndefined();
});

test('L9: neither the state nor what belongs to the login can be read in the store', async () => {
  const state = await attempts().add(attempt);
  const text = JSON.stringify(await inStore());
  for (const secret of [state, attempt.verifier, attempt.userId]) expect(text).not.toContain(secret);
});

test('an expired attempt is deleted when the next one starts', async () => {
  await attempts().add(attempt);
  clock += tenMinutes - 1;
  await attempts().add(attempt);
  expect(await inStore()).toHaveLength(2);
  clock += 1;
  await attempts().add(attempt);
  expect(await inStore()).toHaveLength(2);
});

test('P14: a link is good for ten minutes, and with the key that it was made with', async () => {
  const tickets = createLoginTickets(keys, () => clock);
  const ticket = await tickets.make('ada', 'notes');
  clock += tenMinutes - 1;
  expect(tickets.read(ticket)).toEqual({ userId: 'ada', server: 'notes' });
  const other = { id: 'k', secret: createSecretKey(Buffer.alloc(32, 8)) };
  expect(
    createLoginTickets({ current: () => other, make: async () => other }, () => clock).read(ticket),
  ).toBeUndefined();
  clock += 1;
  expect(tickets.read(ticket)).toBeUndefined();
});

test('the limit holds for each name, and ends with the time window', () => {
  let time = 0;
  const mayBegin = createStartLimiter(2, 100, () => time);
  expect(['a', 'a', 'a', 'b'].map(mayBegin)).toEqual([true, true, false, true]);
  time = 100;
  expect(mayBegin('a')).toBe(true);
});
