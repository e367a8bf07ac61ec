import assert from 'node:assert/strict';
import type { Change } from '../../../stores/feed.ts';
import type { SessionStore } from '../../../stores/store.ts';
import type { DefineTest } from './harness.ts';

/** Long enough for any store: it only keeps a silent store from blocking the tests. */
const maxWaitMs = 5000;

export function watchStore(store: SessionStore) {
  const changes: Change[] = [];
  let wake = () => {};
  const stop = store.watch((change) => {
    changes.push(change);
    wake();
  });
  return {
    changes,
    stop,
    async waitFor(matches: (change: Change) => boolean, what: string): Promise<void> {
      let late = false;
      // This timer keeps the process alive; the timers of a store do not.
      const timer = setTimeout(() => {
        late = true;
        wake();
      }, maxWaitMs);
      while (!changes.some(matches) && !late) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      clearTimeout(timer);
      assert.ok(changes.some(matches), `never heard: ${what}`);
    },
  };
}

export function testFeed(test: DefineTest): void {
  test('a watcher hears of every session created, changed and ended, in order', async ({ store, open, advance }) => {
    const watcher = watchStore(store);
    const { id } = await open({ ttlSeconds: 60 });
    await store.update(id, 1, { permissions: [] });
    await store.update(id, 2, { tokenDigests: ['another'], metadata: {} });
    await store.end(id, 'revoked');
    const second = await open({ ttlSeconds: 1 });
    advance(1000);
    await store.sweep();
    await watcher.waitFor((change) => change.kind === 'ended' && change.id === second.id, 'the second end');
    assert.deepEqual(watcher.changes, [
      { kind: 'created', id, version: 1, here: true },
      { kind: 'changed', id, version: 2, restricted: true, here: true },
      { kind: 'changed', id, version: 3, restricted: false, here: true },
      { kind: 'ended', id, reason: 'revoked', here: true },
      { kind: 'created', id: second.id, version: 1, here: true },
      { kind: 'ended', id: second.id, reason: 'expired', here: true },
    ]);
  });

  test('a watcher hears nothing if nothing was written', async ({ store, open }) => {
    const { id } = await open();
    const watcher = watchStore(store);
    await store.admit({ id });
    await store.update(id, 9, {});
    await store.state.set(id, 'k', 1);
    await store.end('unknown');
    await store.end(id);
    await watcher.waitFor(({ kind }) => kind === 'ended', 'the end');
    assert.equal(watcher.changes.filter(({ kind }) => kind !== 'created').length, 1);
  });

  test('a watcher hears what another process does', async ({ open, another, store }) => {
    if (another === undefined) return assert.equal(store.capabilities.shared, 'process');
    const watcher = watchStore(await another());
    const { id } = await open();
    await watcher.waitFor((change) => change.kind === 'created' && change.id === id, 'created elsewhere');
    await store.update(id, 1, { permissions: [] });
    await watcher.waitFor((change) => change.kind === 'changed' && change.version === 2, 'changed elsewhere');
    await store.end(id);
    await watcher.waitFor((change) => change.kind === 'ended' && change.id === id, 'ended elsewhere');
    assert.ok(watcher.changes.every((change) => !('here' in change) || !change.here));
  });

  test('a watcher that was stopped hears nothing more', async ({ store, open }) => {
    const [first, second] = [watchStore(store), watchStore(store)];
    const { id } = await open();
    for (const watcher of [first, second]) await watcher.waitFor(({ kind }) => kind === 'created', 'created');
    first.stop();
    await store.end(id);
    await second.waitFor(({ kind }) => kind === 'ended', 'ended');
    assert.equal(
      first.changes.some(({ kind }) => kind === 'ended'),
      false,
    );
  });
}
