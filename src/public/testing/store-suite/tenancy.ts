import assert from 'node:assert/strict';
import { draft, type Tell } from './harness.ts';

export function tenancy(tell: Tell): void {
  tell('a list for one user or workspace holds nobody else’s', async ({ store, open }) => {
    const ada = await open({ userId: 'ada', workspaceId: 'garden' });
    const eve = await open({ userId: 'eve', workspaceId: 'garden' });
    const adas = await open({ userId: 'ada', workspaceId: null });
    await open({ userId: 'ada:', workspaceId: 'garden:' });
    await open({ userId: 'garden', workspaceId: 'ada' });
    const ids = async (filter: object) => (await store.list(filter)).sessions.map(({ id }) => id).sort();
    assert.deepEqual(await ids({ userId: 'ada' }), [ada.id, adas.id].sort());
    assert.deepEqual(await ids({ workspaceId: 'garden' }), [ada.id, eve.id].sort());
    assert.deepEqual(await ids({ userId: 'ada', workspaceId: 'garden' }), [ada.id]);
    assert.deepEqual(await ids({ userId: 'nobody' }), []);
    assert.deepEqual(await ids({ workspaceId: 'nowhere' }), []);
    assert.equal((await ids({})).length, 5);
  });

  tell('children are found by their parent', async ({ store, open }) => {
    const parent = await open();
    const child = await open({ parentId: parent.id });
    await open({ parentId: child.id });
    const { sessions } = await store.list({ parentId: parent.id });
    assert.deepEqual(sessions, [child]);
  });

  tell('a name is unique among the live sessions of one user', async ({ store, open, advance }) => {
    const first = await open({ name: 'main' });
    assert.deepEqual(await store.create(draft({ name: 'main' })), { outcome: 'exists', what: 'name' });
    await open({ name: 'main', userId: 'eve' });
    await store.end(first.id);
    const second = await open({ name: 'main', ttlSeconds: 1 });
    advance(1000);
    const third = await open({ name: 'main' });
    assert.notEqual(second.id, third.id);
    await store.sweep();
    assert.deepEqual((await store.find('main', { userId: 'ada' }))[0]?.id, third.id);
    assert.deepEqual(await store.create(draft({ name: 'main' })), { outcome: 'exists', what: 'name' });
  });

  tell('one user’s cap counts only that user’s live sessions', async ({ store, open, advance }) => {
    await open({ userId: 'ada', ttlSeconds: 1 });
    const ended = await open({ userId: 'ada' });
    await open({ userId: 'eve' });
    assert.deepEqual(await store.create(draft(), { perUser: 2 }), { outcome: 'full', cap: 'perUser' });
    await store.end(ended.id);
    assert.equal((await store.create(draft(), { perUser: 2 })).outcome, 'created');
    advance(1000);
    assert.equal((await store.create(draft(), { perUser: 2 })).outcome, 'created');
    assert.deepEqual(await store.create(draft(), { perUser: 2 }), { outcome: 'full', cap: 'perUser' });
  });

  tell(
    'a session whose end is brought forward counts for no cap from that end on',
    async ({ store, open, advance }) => {
      const { id, createdAt } = await open();
      await store.admit({ id, holdMs: 30_000 });
      await store.update(id, 1, { endsAt: createdAt + 1000 });
      advance(999);
      assert.deepEqual(await store.create(draft(), { perUser: 1 }), { outcome: 'full', cap: 'perUser' });
      advance(1);
      assert.equal((await store.create(draft(), { perUser: 1, inAll: 1 })).outcome, 'created');
      assert.equal((await store.remains(id))?.reason, 'expired');
    },
  );

  tell('the cap in all counts everyone’s, and does what is declared when it is reached', async (scene) => {
    const { store, open, advance } = scene;
    const expired = await open({ userId: 'eve', ttlSeconds: 1 });
    const busy = await open({ userId: 'bob' });
    await store.admit({ id: busy.id, holdMs: 60_000 });
    advance(1000);
    const idlest = await open({ userId: 'ada' });
    advance(1);
    const fresh = await open({ userId: 'eve' });
    assert.equal((await store.create(draft(), { inAll: 4 })).outcome, 'created', 'the expired one does not count');
    const last = await store.create(draft(), { inAll: 4 });
    assert.equal((await store.remains(expired.id))?.reason, 'expired');
    if (store.capabilities.whenFull === 'refuse') {
      assert.deepEqual(last, { outcome: 'full', cap: 'inAll' });
      assert.ok(await store.get(idlest.id));
      return;
    }
    assert.equal(last.outcome, 'created');
    assert.equal((await store.remains(idlest.id))?.reason, 'evicted');
    for (const { id } of [busy, fresh]) assert.ok(await store.get(id));
    assert.deepEqual(
      await store.create(draft({ userId: 'zoe' }), { inAll: 4, perUser: 1 }).then((a) => a.outcome),
      'created',
    );
    assert.ok(await store.get(busy.id), 'a session with a call under way is never put out');
  });

  tell('state and marks belong to one session', async ({ store, open }) => {
    const [ada, eve] = [await open({ id: 'aaaa-1' }), await open({ id: 'aaaa-1-2' })];
    await store.state.set(ada.id, '2:k', 'hers');
    await store.marks.put(ada.id, '2:k', 'hers');
    assert.equal(await store.state.get(eve.id, 'k'), undefined);
    assert.equal(await store.state.get(eve.id, '2:k'), undefined);
    assert.equal(await store.marks.get(eve.id, '2:k'), undefined);
    await store.end(eve.id);
    assert.equal((await store.state.get(ada.id, '2:k'))?.value, 'hers');
  });
}
