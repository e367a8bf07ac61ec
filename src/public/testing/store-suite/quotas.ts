import assert from 'node:assert/strict';
import {
  acquireLease,
  callConcurrently,
  type DefineTest,
  expectOutcome,
  isAdmitted,
  isInvalidRequest,
  readUse,
} from './harness.ts';

export function testQuotas(test: DefineTest): void {
  testCallQuotas(test);
  testConcurrentCalls(test);
  testTotals(test);
  testChildren(test);
}

/** The calls of a child are also admitted for its ancestors, so a user and a workspace count them only there. */
function testChildren(test: DefineTest): void {
  test('a call of a child counts for its user and workspace only with its root', async ({ store, open, advance }) => {
    const root = await open();
    const child = await open({ parentId: root.id });
    const limits = { user: { concurrentCalls: 1, totalCalls: 3, totalBytes: 100 }, workspace: { callsPerMinute: 3 } };
    for (let index = 0; index < 3; index++) {
      const leases = [
        await acquireLease(store, { id: child.id, limits }),
        await acquireLease(store, { id: root.id, limits }),
      ];
      assert.ok(!(await isAdmitted(store, { id: root.id, limits, holdMs: 1000 })), 'one call at a time');
      if (index === 0) await store.renew(child.id, leases[0] as string, 30_000, { bytes: 90, limits });
      await store.release(child.id, leases[0] as string, { bytes: 90, limits });
      await store.release(root.id, leases[1] as string, { bytes: 30, limits });
    }
    assert.ok(!(await isAdmitted(store, { id: root.id, limits: { user: { totalCalls: 3 } } })));
    assert.ok(await isAdmitted(store, { id: root.id, limits: { user: { totalCalls: 4, totalBytes: 100 } } }));
    assert.ok(await isAdmitted(store, { id: child.id, limits }));
    advance(60_000);
    await store.end(child.id);
  });

  test('a child in another workspace than its parent counts there', async ({ store, open }) => {
    const root = await open({ workspaceId: null });
    const child = await open({ parentId: root.id });
    const grandchild = await open({ parentId: child.id });
    const limits = { workspace: { totalCalls: 2, concurrentCalls: 1, totalBytes: 100 } };
    const lease = await acquireLease(store, { id: child.id, limits });
    assert.ok(await isAdmitted(store, { id: root.id, limits }), 'the root works in none');
    assert.ok(await isAdmitted(store, { id: grandchild.id, limits, holdMs: 1000 }), 'it counts with the child');
    assert.ok(!(await isAdmitted(store, { id: child.id, limits, holdMs: 1000 })), 'one call at a time');
    await store.release(child.id, lease, { bytes: 90, limits });
    assert.ok(await isAdmitted(store, { id: child.id, limits }));
    assert.ok(!(await isAdmitted(store, { id: (await open()).id, limits })));
  });
}

function testCallQuotas(test: DefineTest): void {
  test('usage tells how far the calls are ahead of their pace, and how many children live', async (storeTest) => {
    const { store, open, advance } = storeTest;
    const { id } = await open({ ttlSeconds: 600 });
    const child = await open({ parentId: id });
    await open({ parentId: id, ttlSeconds: 1 });
    await open();
    const read = async () => {
      const { aheadMs, children } = (await store.usage(id)) ?? {};
      return [aheadMs, children];
    };
    assert.deepEqual(await read(), [0, 2]);
    const limits = { session: { callsPerMinute: 6 } };
    for (let index = 0; index < 3; index++) assert.ok(await isAdmitted(store, { id, limits }));
    assert.deepEqual(await read(), [30_000, 2]);
    advance(12_500);
    assert.deepEqual(await read(), [17_500, 1], 'one child has expired');
    await store.end(child.id);
    advance(20_000);
    assert.deepEqual(await read(), [0, 0]);
  });

  test('calls per minute: a burst, then an even rate, with the exact time to retry', async (storeTest) => {
    const { store, open, advance } = storeTest;
    const { id } = await open({ ttlSeconds: 600 });
    const request = { id, limits: { session: { callsPerMinute: 7, burst: 3 } } };
    for (let index = 0; index < 3; index++) assert.ok(await isAdmitted(store, request));
    const refused = await store.admit(request);
    assert.deepEqual(refused, {
      outcome: 'quota',
      scope: 'session',
      limit: 'callsPerMinute',
      allowed: 7,
      retryAfterMs: 8572,
    });
    advance(8571);
    assert.ok(!(await isAdmitted(store, request)));
    advance(1);
    assert.ok(await isAdmitted(store, request));
    assert.ok(!(await isAdmitted(store, request)));
  });

  test('by default all calls of a minute may come at once, and no more', async ({ store, open }) => {
    const { id } = await open();
    const request = { id, limits: { session: { callsPerMinute: 13 } } };
    for (let index = 0; index < 13; index++) assert.ok(await isAdmitted(store, request), String(index));
    assert.ok(!(await isAdmitted(store, request)));
  });

  test('uncounted calls pass, and a call that can never pass gets no retry time', async ({ store, open }) => {
    const { id } = await open();
    const limits = { session: { callsPerMinute: 2, totalCalls: 100, concurrentCalls: 1 } };
    assert.ok(await isAdmitted(store, { id, limits, calls: 2, holdMs: 1000 }));
    assert.ok(!(await isAdmitted(store, { id, limits })));
    assert.ok(await isAdmitted(store, { id, limits, calls: 0, holdMs: 1000 }));
    const never = await expectOutcome(store.admit({ id, limits, calls: 3 }), 'quota');
    assert.equal(never.retryAfterMs, null);
    assert.deepEqual(await readUse(store, id), { calls: 2, bytes: 0, underWay: 1 });
  });

  test('concurrent calls never exceed a limit', async ({ store, open, another }) => {
    const other = another === undefined ? store : await another();
    const { id } = await open();
    const limits = { session: { totalCalls: 5 }, user: { callsPerMinute: 5 }, workspace: { concurrentCalls: 5 } };
    const answers = await callConcurrently([store, other], (each) => each.admit({ id, limits, holdMs: 30_000 }));
    assert.equal(answers.filter(({ outcome }) => outcome === 'admitted').length, 5);
    assert.deepEqual(await readUse(store, id), { calls: 5, bytes: 0, underWay: 5 });
  });

  test('a refusal charges nobody', async ({ store, open }) => {
    const [one, two] = [await open(), await open()];
    const limits = { session: { totalCalls: 1 }, user: { totalCalls: 2 }, workspace: { totalCalls: 2 } };
    assert.ok(await isAdmitted(store, { id: one.id, limits }));
    for (let index = 0; index < 5; index++) assert.ok(!(await isAdmitted(store, { id: one.id, limits })));
    assert.ok(await isAdmitted(store, { id: two.id, limits }));
    const answer = await store.admit({ id: (await open()).id, limits });
    assert.ok(answer.outcome === 'quota' && answer.scope === 'user' && answer.limit === 'totalCalls');
  });

  test('a user’s quota spans all of the user’s sessions, a workspace’s everyone in it', async ({ store, open }) => {
    const ada = await open({ userId: 'ada', workspaceId: 'garden' });
    const kitchen = await open({ userId: 'ada', workspaceId: 'kitchen' });
    const eve = await open({ userId: 'eve', workspaceId: 'garden' });
    const none = await open({ userId: 'bob', workspaceId: null });
    const perUser = { user: { callsPerMinute: 2 } };
    assert.ok(await isAdmitted(store, { id: ada.id, limits: perUser }));
    assert.ok(await isAdmitted(store, { id: kitchen.id, limits: perUser }));
    const refused = await expectOutcome(store.admit({ id: ada.id, limits: perUser }), 'quota');
    assert.deepEqual([refused.scope, refused.retryAfterMs], ['user', 30_000]);
    assert.ok(await isAdmitted(store, { id: eve.id, limits: perUser }));
    const perWorkspace = { workspace: { concurrentCalls: 1 } };
    await acquireLease(store, { id: ada.id, limits: perWorkspace });
    const busy = await store.admit({ id: eve.id, limits: perWorkspace, holdMs: 1000 });
    assert.ok(busy.outcome === 'quota' && busy.scope === 'workspace' && busy.retryAfterMs === null);
    assert.ok(await isAdmitted(store, { id: kitchen.id, limits: perWorkspace, holdMs: 1000 }));
    for (let index = 0; index < 2; index++) {
      assert.ok(await isAdmitted(store, { id: none.id, limits: perWorkspace, holdMs: 1000 }), 'no workspace, no limit');
    }
  });
}

function testConcurrentCalls(test: DefineTest): void {
  test('a lease is released once, expires by itself, and ends with its session', async (storeTest) => {
    const { store, open, advance } = storeTest;
    const [one, two] = [await open({ ttlSeconds: 600 }), await open({ ttlSeconds: 600 })];
    const limits = { session: { concurrentCalls: 2 }, user: { concurrentCalls: 3 } };
    const lease = await acquireLease(store, { id: one.id, limits });
    await acquireLease(store, { id: one.id, limits });
    assert.ok(!(await isAdmitted(store, { id: one.id, limits, holdMs: 1000 })));
    await store.release(one.id, lease);
    await store.release(one.id, lease);
    await store.release(two.id, 'not-a-lease');
    await acquireLease(store, { id: one.id, limits });
    assert.ok(!(await isAdmitted(store, { id: one.id, limits, holdMs: 1000 })));
    await acquireLease(store, { id: two.id, limits });
    assert.ok(!(await isAdmitted(store, { id: two.id, limits, holdMs: 1000 })));
    await store.end(one.id);
    const kept = await acquireLease(store, { id: two.id, limits });
    assert.deepEqual(await readUse(store, two.id), { calls: 2, bytes: 0, underWay: 2 });
    advance(29_999);
    assert.equal(await store.renew(two.id, kept, 30_000), true);
    advance(1);
    assert.deepEqual(await readUse(store, two.id), { calls: 2, bytes: 0, underWay: 1 });
    advance(29_999);
    assert.equal(await store.renew(two.id, kept, 30_000), false, 'what has run out cannot be renewed');
    assert.deepEqual(await readUse(store, two.id), { calls: 2, bytes: 0, underWay: 0 });
  });

  test('ending a session releases its leases for its user and its workspace at once', async (storeTest) => {
    const { store, open } = storeTest;
    for (const limits of [{ user: { concurrentCalls: 1 } }, { workspace: { concurrentCalls: 1 } }]) {
      const [one, two] = [await open(), await open()];
      await acquireLease(store, { id: one.id, limits });
      assert.ok(!(await isAdmitted(store, { id: two.id, limits, holdMs: 1000 })));
      await store.end(one.id);
      assert.ok(await isAdmitted(store, { id: two.id, limits, holdMs: 1000 }), JSON.stringify(limits));
      await store.end(two.id);
    }
  });

  test('an expired session releases its leases, swept or not', async (storeTest) => {
    const { store, open, advance } = storeTest;
    const everybody = { user: { concurrentCalls: 1 }, workspace: { concurrentCalls: 1 } };
    const endings: (() => Promise<string>)[] = [
      async () => {
        const { id, createdAt } = await open();
        await acquireLease(store, { id, limits: everybody });
        await store.update(id, 1, { endsAt: createdAt + 1000 });
        return 'its end was brought forward';
      },
      async () => {
        await acquireLease(store, { id: (await open({ lifetimeSeconds: 1 })).id, limits: everybody });
        return 'its lifetime ended before the place ran out';
      },
      async () => {
        const { id } = await open({ lifetimeSeconds: 1 });
        await store.renew(id, await acquireLease(store, { id, limits: everybody, holdMs: 500 }), 30_000);
        return 'its lifetime ended before the renewed place ran out';
      },
    ];
    for (const sweep of [async () => 0, store.sweep]) {
      for (const begin of endings) {
        const [sameUser, sameWorkspace] = [await open({ workspaceId: null }), await open({ userId: 'eve' })];
        const why = await begin();
        advance(999);
        for (const { id } of [sameUser, sameWorkspace])
          assert.ok(!(await isAdmitted(store, { id, limits: everybody, holdMs: 1000 })), `held until then: ${why}`);
        advance(1);
        await sweep();
        for (const { id } of [sameUser, sameWorkspace]) {
          assert.ok(await isAdmitted(store, { id, limits: everybody, holdMs: 1000 }), why);
          await store.end(id);
        }
      }
    }
  });
}

function testTotals(test: DefineTest): void {
  test('bytes count before and after the call, for session, user and workspace', async ({ store, open }) => {
    const { id } = await open();
    const limits = { session: { totalBytes: 100 }, user: { totalBytes: 150 }, workspace: { totalBytes: 150 } };
    const lease = await acquireLease(store, { id, bytes: 40, limits });
    await store.release(id, lease, { bytes: 50 });
    await store.release(id, lease, { bytes: 50 });
    assert.deepEqual(await readUse(store, id), { calls: 1, bytes: 90, underWay: 0 });
    const refused = await expectOutcome(store.admit({ id, bytes: 11, limits }), 'quota');
    assert.deepEqual([refused.scope, refused.limit, refused.retryAfterMs], ['session', 'totalBytes', null]);
    assert.ok(await isAdmitted(store, { id, bytes: 10, limits }));
    assert.ok(!(await isAdmitted(store, { id, limits })), 'at the limit nothing more is let in');
    assert.ok(await isAdmitted(store, { id: (await open()).id, bytes: 50, limits }));
    const third = await store.admit({ id: (await open()).id, bytes: 1, limits });
    assert.ok(third.outcome === 'quota' && third.scope === 'user');
  });

  test('the totals of a user start again each day, those of a session do not', async ({ store, open, advance }) => {
    const { id, createdAt } = await open({ ttlSeconds: 200_000, lifetimeSeconds: 200_000 });
    const limits = { user: { totalCalls: 1, totalBytes: 10 } };
    assert.ok(await isAdmitted(store, { id, bytes: 10, limits }));
    const refused = await store.admit({ id, limits });
    const midnight = 86_400_000 - (createdAt % 86_400_000);
    assert.ok(refused.outcome === 'quota');
    assert.equal(refused.retryAfterMs, midnight);
    advance(midnight - 1);
    assert.ok(!(await isAdmitted(store, { id, limits })));
    advance(1);
    assert.ok(await isAdmitted(store, { id, limits }));
    const own = await store.admit({ id, limits: { session: { totalCalls: 2 } } });
    assert.ok(own.outcome === 'quota' && own.scope === 'session' && own.retryAfterMs === null);
  });

  test('of several limits that refuse a call, the one that lasts longest is named', async ({ store, open }) => {
    const { id } = await open();
    const limits = { session: { callsPerMinute: 60, burst: 1 }, user: { callsPerMinute: 6, burst: 1 } };
    assert.ok(await isAdmitted(store, { id, limits }));
    const refused = await expectOutcome(store.admit({ id, limits }), 'quota');
    assert.deepEqual([refused.scope, refused.retryAfterMs], ['user', 10_000]);
  });

  test('a session that is gone is reported before any quota', async ({ store, open }) => {
    const { id } = await open();
    const request = { id, limits: { session: { totalCalls: 1 } } };
    await store.admit(request);
    await store.end(id);
    assert.equal((await store.admit(request)).outcome, 'ended');
  });

  test('invalid limits are refused', async ({ store, open }) => {
    const { id } = await open();
    for (const request of [
      { id, calls: -1 },
      { id, bytes: -5 },
      { id, holdMs: 0 },
      { id, holdMs: 600_001 },
      { id, calls: 0.5 },
      { id, limits: { session: { callsPerMinute: 0 } } },
      { id, limits: { session: { burst: 3 } } },
      { id, limits: { user: { totalCalls: Number.NaN } } },
    ]) {
      await assert.rejects(store.admit(request), isInvalidRequest, JSON.stringify(request));
    }
  });
}
