import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Grant, StaleSessionError } from '../../src/sessions/grants.ts';
import type { Quotas } from '../../src/sessions/quotas.ts';
import type { Session } from '../../src/sessions/session.ts';
import { createSessions, type Sessions } from '../../src/sessions/sessions.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { codeOf } from './code-of.ts';
import { createObstructedStore, type ObstructedStore } from './obstructed-store.ts';

const bounds = { ttlSeconds: 60, maxLifetimeSeconds: 300, maxSessions: 100, maxPerUser: 10 };
let now = 0;
let store: SessionStore;
let between: ObstructedStore;
let quotas: Quotas;
let all: Sessions[];

beforeEach(() => {
  now = 1_000_000;
  quotas = { session: { callsPerMinute: 6000, concurrentCalls: 64 } };
  store = openMemoryStore({ now: () => now });
  between = createObstructedStore(store);
  all = [];
});
afterEach(async () => {
  for (const each of all) await each.close();
  await store.close();
});

/** What one process has. */
function createProcess(given: SessionStore = between, maxSessions = 100): Sessions {
  const own = { ...bounds, maxSessions };
  const sessions = createSessions({ store: given, bounds: own, quotas: () => quotas, now: () => now });
  all.push(sessions);
  return sessions;
}

const open = async (sessions: Sessions, userId = 'ada') =>
  (await sessions.create({ userId, trustLevel: 'sandboxed' })).session;

/** These sessions have no parent, so each call has one grant. */
const acquire = (sessions: Sessions, session: Session, counted: boolean) =>
  sessions.acquire(session, counted) as Grant | Promise<Grant>;

function releaseGrant(grant: Grant, bytes = 0, counted = true): void {
  grant.owner.release(grant, counted, bytes);
}

async function call(sessions: Sessions, session: Session): Promise<Grant> {
  const grant = await acquire(sessions, session, true);
  releaseGrant(grant);
  return grant;
}

/** Enough calls, one after the other, that grants of several calls are handed out. */
async function warmUp(sessions: Sessions, session: Session): Promise<Grant> {
  let grant = await call(sessions, session);
  while (grant.calls < 4) grant = await call(sessions, session);
  return grant;
}

const waitForTurn = () => new Promise((resolve) => setImmediate(resolve));

async function settleAfter(ms: number, { owner }: Grant): Promise<void> {
  now += ms;
  owner.settle();
  await waitForTurn();
}

async function openInProcess(maxSessions?: number): Promise<[Sessions, Session]> {
  const sessions = createProcess(between, maxSessions);
  return [sessions, await open(sessions)];
}

describe('a grant', () => {
  test('L11: of several calls is used without the store, and unused calls are given back', async () => {
    const [sessions, session] = await openInProcess();
    let made = 0;
    for (; made < 40; made++) await call(sessions, session);
    expect(between.asked.length).toBeLessThan(40);
    const last = await call(sessions, session);
    made++;
    await settleAfter(1000, last);
    expect(await store.usage(session.id)).toMatchObject({ leases: [], calls: made, bytes: 0, underWay: 0 });
  });

  test('is withdrawn with all others when the record may have changed', async () => {
    const [sessions, session] = await openInProcess();
    const listing = await acquire(sessions, session, false);
    const counted = await warmUp(sessions, session);
    const busy = await acquire(sessions, session, true);
    const after = await sessions.restrict(session.id, { ttlSeconds: 30 });
    for (const grant of [listing, counted, busy]) expect(grant.usableUntil).toBe(0);
    between.asked.length = 0;
    releaseGrant(await acquire(sessions, after, false), 0, false);
    expect(between.asked).toContain('admit');
    releaseGrant(listing, 0, false);
    releaseGrant(busy);
    await waitForTurn();
    expect((await store.usage(session.id))?.underWay).toBe(0);
  });

  test('L1: is not given for a decision that was made on an older record', async () => {
    const [sessions, session] = await openInProcess();
    await sessions.restrict(session.id, { ttlSeconds: 30 });
    await expect((async () => acquire(sessions, session, true))()).rejects.toBeInstanceOf(StaleSessionError);
  });

  test('is not given either when the record changed while the store was asked', async () => {
    const [sessions, session] = await openInProcess();
    between.late.add('admit');
    const entering = expect((async () => acquire(sessions, session, true))()).rejects.toBeInstanceOf(StaleSessionError);
    await waitForTurn();
    await sessions.restrict(session.id, { ttlSeconds: 30 });
    await between.letGo();
    await entering;
    await waitForTurn();
    expect(await store.usage(session.id)).toMatchObject({ calls: 0, underWay: 0 });
  });

  test('that was long in coming is good for those who waited, and for nobody after them', async () => {
    const [sessions, session] = await openInProcess();
    await warmUp(sessions, session);
    now += 1000;
    between.late.add('admit');
    const entering = Promise.resolve(acquire(sessions, session, true));
    await waitForTurn();
    now += 1900;
    await between.letGo();
    const grant = await entering;
    expect(grant.usableUntil - now).toBeLessThanOrEqual(50);
    releaseGrant(grant);
  });

  test('L5: its session is not unloaded while a call waits for it', async () => {
    const [sessions, session] = await openInProcess(4);
    const left: string[] = [];
    sessions.onEnded(({ id }) => left.push(id));
    between.late.add('admit');
    const entering = Promise.resolve(acquire(sessions, session, true));
    await waitForTurn();
    const elsewhere = createProcess(store);
    for (let i = 0; i < 12; i++) {
      now++;
      await sessions.find((await open(elsewhere, `u${i}`)).id);
    }
    expect(left.length).toBeGreaterThan(5);
    expect(left).not.toContain(session.id);
    await between.letGo();
    releaseGrant(await entering);
  });

  test('that ran out while the store was away is taken anew for the call that goes on', async () => {
    const [sessions, session] = await openInProcess();
    const grant = await acquire(sessions, session, true);
    between.failing.add('renew');
    await settleAfter(31_000, grant);
    expect((await store.usage(session.id))?.underWay).toBe(0);
    between.failing.clear();
    await settleAfter(10_000, grant);
    expect((await store.usage(session.id))?.underWay).toBe(1);
    releaseGrant(grant);
    await waitForTurn();
    expect((await store.usage(session.id))?.underWay).toBe(0);
  });

  test('is refused with the reason once its session is unloaded', async () => {
    const [sessions, session] = await openInProcess();
    between.late.add('admit');
    const entering = codeOf(() => acquire(sessions, session, true));
    await waitForTurn();
    await sessions.end(session.id);
    await between.letGo();
    expect(await entering).toBe('SESSION_ENDED');
  });

  test('is given although the session was unloaded meanwhile', async () => {
    const [sessions, session] = await openInProcess(4);
    const elsewhere = createProcess(store);
    for (let i = 0; i < 6; i++) {
      now++;
      await sessions.find((await open(elsewhere, `u${i}`)).id);
    }
    expect(sessions.get(session.id)).toBeUndefined();
    releaseGrant(await acquire(sessions, session, true));
    expect(sessions.get(session.id)).toBeDefined();
  });
});

describe('what a store does not hear', () => {
  test('L11: unused calls are given back once the store is back', async () => {
    const [sessions, session] = await openInProcess();
    const grant = await warmUp(sessions, session);
    const made = (await store.usage(session.id))?.calls as number;
    const unused = grant.calls;
    between.failing.add('release');
    await settleAfter(800, grant);
    expect((await store.usage(session.id))?.calls).toBe(made);
    between.failing.clear();
    await settleAfter(1000, grant);
    expect(await store.usage(session.id)).toMatchObject({ leases: [], calls: made - unused, bytes: 0, underWay: 0 });
    expect(grant.owner.settle()).toBe(false);
  });

  test('L11: bytes are counted once the store is back', async () => {
    const sessions = createProcess();
    quotas = { session: { callsPerMinute: 6000 } };
    const session = await open(sessions);
    await warmUp(sessions, session);
    const [one, two] = [await acquire(sessions, session, true), await acquire(sessions, session, true)];
    releaseGrant(one, 1234);
    between.failing.add('renew');
    await settleAfter(800, two);
    between.failing.clear();
    await settleAfter(1000, two);
    expect((await store.usage(session.id))?.bytes).toBe(1234);
    releaseGrant(two, 1);
    await waitForTurn();
    await settleAfter(1000, two);
    expect((await store.usage(session.id))?.bytes).toBe(1235);
  });
});

describe('quotas', () => {
  test('L11: unused calls are given back to the limits they were taken from, also after a reload', async () => {
    const [sessions, session] = await openInProcess();
    const grant = await warmUp(sessions, session);
    expect(grant.calls).toBeGreaterThan(0);
    // The user's calls were not counted when this was granted: none may be given back to it.
    quotas = { ...quotas, user: { totalCalls: 3 } };
    const other = await open(sessions);
    await call(sessions, other);
    await call(sessions, other);
    await settleAfter(800, grant);
    await call(sessions, other);
    expect(await codeOf(() => call(sessions, other))).toBe('QUOTA_EXCEEDED');
  });

  test('L11: of one call at a time is used by two processes in turn, never by both', async () => {
    quotas = { session: { callsPerMinute: 6000, concurrentCalls: 1 } };
    const [a, b] = [createProcess(), createProcess()];
    const ofA = await open(a);
    const ofB = (await b.load(ofA.id)) as Session;
    for (let i = 0; i < 20; i++) {
      await call(a, ofA);
      await call(b, ofB);
    }
    const grant = await acquire(a, ofA, true);
    expect(await codeOf(() => call(b, ofB))).toBe('QUOTA_EXCEEDED');
    releaseGrant(grant);
    expect(await codeOf(() => call(b, ofB))).toBe('ok');
  });

  test('L11: idle grants of one session do not make calls of another session of the same user fail', async () => {
    quotas = { session: { callsPerMinute: 6000 }, user: { concurrentCalls: 32 } };
    const sessions = createProcess();
    const many = await Promise.all(Array.from({ length: 4 }, () => open(sessions)));
    for (const session of many) {
      const busy: Grant[] = [];
      while (busy.length < 20) busy.push(await acquire(sessions, session, true));
      for (const grant of busy) releaseGrant(grant);
    }
    const grants = await Promise.all(
      Array.from({ length: 32 }, async () => acquire(sessions, many[0] as Session, true)),
    );
    expect(grants).toHaveLength(32);
    expect(await codeOf(() => call(sessions, many[1] as Session))).toBe('QUOTA_EXCEEDED');
    for (const grant of grants) releaseGrant(grant);
  });

  test.each([
    [{ callsPerMinute: 5 }, 'callsPerMinute', /Try again in 12 s/, 12_000],
    [{ totalCalls: 5 }, 'totalCalls', /No more calls are possible/, undefined],
  ])('L11: a session with %j makes exactly that many', async (limits, name, words, wait) => {
    quotas = { session: limits };
    const [sessions, session] = await openInProcess();
    for (let i = 0; i < 5; i++) await call(sessions, session);
    const refused = (async () => call(sessions, session))();
    await expect(refused).rejects.toMatchObject({
      code: 'QUOTA_EXCEEDED',
      rule: `quotas.session.${name}`,
      retryAfterMs: wait,
      hint: expect.stringMatching(words),
      message: expect.stringMatching(/The session has reached its limit of 5 calls/),
    });
  });

  test('L11: of bytes are checked before a call, with all that was answered before', async () => {
    quotas = { user: { totalBytes: 100 } };
    const sessions = createProcess();
    const [one, two] = [await open(sessions), await open(sessions)];
    releaseGrant(await acquire(sessions, one, true), 60);
    releaseGrant(await acquire(sessions, two, true), 60);
    await waitForTurn();
    for (const session of [one, two]) expect(await codeOf(() => call(sessions, session))).toBe('QUOTA_EXCEEDED');
  });
});

describe('following the store', () => {
  test('L16: a change that could not be read at once is read as soon as the store answers', async () => {
    const [here, elsewhere] = [createProcess(), createProcess(store)];
    const session = await open(here);
    const narrowed = new Promise((resolve) => here.onRestricted(resolve));
    between.failing.add('get');
    await elsewhere.restrict(session.id, { ttlSeconds: 10 });
    await waitForTurn();
    expect(here.get(session.id)?.ttlSeconds).toBe(60);
    between.failing.clear();
    await narrowed;
    expect(here.get(session.id)?.ttlSeconds).toBe(10);
  });

  test('L4: a record that was read before the end and arrives after it does not load the session again', async () => {
    const [here, elsewhere] = [createProcess(), createProcess(store)];
    const session = await open(elsewhere);
    between.late.add('get');
    const loading = here.load(session.id);
    await waitForTurn();
    await elsewhere.end(session.id);
    await between.letGo();
    await loading;
    expect(here.get(session.id)).toBeUndefined();
    expect(await codeOf(() => acquire(here, session, true))).toBe('SESSION_ENDED');
  });
});

describe('keys', () => {
  test('L12: when one is revoked, the sessions opened with it end, and no others', async () => {
    const [here, elsewhere] = [createProcess(), createProcess(store)];
    const draft = { userId: 'ada', trustLevel: 'sandboxed' } as const;
    const opened = await Promise.all(
      ['k1', 'k2', 'k1', undefined].map((keyId) =>
        here.create({ ...draft, ...(keyId === undefined ? {} : { keyId }) }),
      ),
    );
    const foreign = await here.create({ ...draft, userId: 'bob', keyId: 'k1' });
    const told: string[] = [];
    here.onEnded((_, reason) => told.push(reason));
    expect(await elsewhere.endForKey('ada', 'k1')).toBe(2);
    expect(told).toEqual(['revoked', 'revoked']);
    const codes = await Promise.all([...opened, foreign].map(({ token }) => codeOf(() => here.verifyToken(token))));
    expect(codes).toEqual(['SESSION_ENDED', 'ok', 'SESSION_ENDED', 'ok', 'ok']);
    expect((await store.remains(opened[0]?.session.id as string))?.reason).toBe('revoked');
  });
});
