import assert from 'node:assert/strict';
import { draft, type Scene, type Tell } from './harness.ts';

/** Two stores on the same data where sessions are shared; else one, asked twice at once. */
async function pair({ store, another }: Scene) {
  return [store, another === undefined ? store : await another()] as const;
}

const outcomes = (answers: readonly { readonly outcome: string }[]) => answers.map(({ outcome }) => outcome).sort();
const twenty = Array.from({ length: 20 }, (_, index) => index);

export function concurrency(tell: Tell): void {
  tell('a change based on an old version is stale and writes nothing', async ({ store, open }) => {
    const { id } = await open({ permissions: ['a', 'b'] });
    await store.update(id, 1, { permissions: ['a'] });
    const late = await store.update(id, 1, { permissions: ['a', 'b', 'c'] });
    assert.ok(late.outcome === 'stale');
    assert.equal(late.record.version, 2);
    assert.deepEqual((await store.get(id))?.permissions, ['a']);
  });

  tell('of many changes at once, one wins', async (scene) => {
    const { id } = await scene.open();
    const stores = await pair(scene);
    const answers = await Promise.all(
      twenty.map((index) => stores[index % 2 === 0 ? 0 : 1].update(id, 1, { permissions: [String(index)] })),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'updated').length, 1);
    const winner = answers.findIndex(({ outcome }) => outcome === 'updated');
    const record = await scene.store.get(id);
    assert.deepEqual([record?.version, record?.permissions], [2, [String(winner)]]);
  });

  tell('of many who create the same id or name at once, one does', async (scene) => {
    const stores = await pair(scene);
    const sameId = draft();
    const ids = await Promise.all(twenty.map((index) => stores[index % 2 === 0 ? 0 : 1].create(sameId)));
    assert.deepEqual(outcomes(ids).slice(0, 2), ['created', 'exists']);
    const names = await Promise.all(
      twenty.map((index) => stores[index % 2 === 0 ? 0 : 1].create(draft({ name: 'same' }))),
    );
    assert.deepEqual(outcomes(names).slice(0, 2), ['created', 'exists']);
  });

  tell('caps hold when many create at once', async (scene) => {
    const stores = await pair(scene);
    const answers = await Promise.all(
      twenty.map((index) => stores[index % 2 === 0 ? 0 : 1].create(draft(), { perUser: 3 })),
    );
    assert.equal(answers.filter(({ outcome }) => outcome === 'created').length, 3);
    assert.deepEqual(
      answers.find(({ outcome }) => outcome !== 'created'),
      { outcome: 'full', cap: 'perUser' },
    );
  });

  tell('a session is ended by one of many', async (scene) => {
    const { id } = await scene.open();
    const stores = await pair(scene);
    const answers = await Promise.all(twenty.map((index) => stores[index % 2 === 0 ? 0 : 1].end(id)));
    assert.equal(answers.filter(Boolean).length, 1);
  });

  tell(
    'an admission decided on an old version is stale, with the record as it is, and counts nothing',
    async (scene) => {
      const { id } = await scene.open({ permissions: ['a'] });
      const [store, other] = await pair(scene);
      await other.update(id, 1, { permissions: [] });
      scene.advance(1000);
      const answer = await store.admit({ id, version: 1, holdMs: 1000 });
      assert.ok(answer.outcome === 'stale');
      assert.deepEqual(answer.record, await store.get(id));
      assert.deepEqual(answer.record.permissions, []);
      assert.deepEqual(await store.usage(id), { calls: 0, bytes: 0, underWay: 0 });
      assert.equal(answer.record.lastActiveAt, answer.record.createdAt);
      assert.equal((await store.admit({ id, version: 2 })).outcome, 'admitted');
    },
  );

  tell('what one has answered, the other sees', async (scene) => {
    const [store, other] = await pair(scene);
    const { id } = await scene.open({ name: 'shared' });
    assert.equal((await other.get(id))?.id, id);
    await other.state.set(id, 'k', 'v');
    assert.equal((await store.state.get(id, 'k'))?.value, 'v');
    await other.end(id);
    assert.deepEqual(await store.admit({ id }), { outcome: 'ended', reason: 'ended' });
  });
}
