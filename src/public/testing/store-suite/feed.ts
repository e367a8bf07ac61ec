import assert from 'node:assert/strict';
import type { Change } from '../../../stores/feed.ts';
import type { SessionStore } from '../../../stores/store.ts';
import type { Tell } from './harness.ts';

/** Generous: it only bounds how long a store that says nothing can hold up the tests. */
const patienceMs = 5000;

export function listen(store: SessionStore) {
  const heard: Change[] = [];
  let wake = () => {};
  const stop = store.watch((change) => {
    heard.push(change);
    wake();
  });
  return {
    heard,
    stop,
    /** Waits until something fitting was heard. */
    async hears(fits: (change: Change) => boolean, what: string): Promise<void> {
      let late = false;
      // A timer that keeps the process alive: a store's own do not.
      const timer = setTimeout(() => {
        late = true;
        wake();
      }, patienceMs);
      while (!heard.some(fits) && !late) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      clearTimeout(timer);
      assert.ok(heard.some(fits), `never heard: ${what}`);
    },
  };
}

export function feed(tell: Tell): void {
  tell('a watcher hears of every session created, changed and ended, in order', async ({ store, open, advance }) => {
    const ear = listen(store);
    const { id } = await open({ ttlSeconds: 60 });
    await store.update(id, 1, { permissions: [] });
    await store.update(id, 2, { tokenDigests: ['another'], metadata: {} });
    await store.end(id, 'revoked');
    const second = await open({ ttlSeconds: 1 });
    advance(1000);
    await store.sweep();
    await ear.hears((change) => change.kind === 'ended' && change.id === second.id, 'the second end');
    assert.deepEqual(ear.heard, [
      { kind: 'created', id, version: 1, here: true },
      { kind: 'changed', id, version: 2, restricted: true, here: true },
      { kind: 'changed', id, version: 3, restricted: false, here: true },
      { kind: 'ended', id, reason: 'revoked', here: true },
      { kind: 'created', id: second.id, version: 1, here: true },
      { kind: 'ended', id: second.id, reason: 'expired', here: true },
    ]);
  });

  tell('what writes nothing is not told', async ({ store, open }) => {
    const { id } = await open();
    const ear = listen(store);
    await store.admit({ id });
    await store.update(id, 9, {});
    await store.state.set(id, 'k', 1);
    await store.end('unknown');
    await store.end(id);
    await ear.hears(({ kind }) => kind === 'ended', 'the end');
    assert.equal(ear.heard.filter(({ kind }) => kind !== 'created').length, 1);
  });

  tell('a watcher hears what another process does', async ({ open, another, store }) => {
    if (another === undefined) return assert.equal(store.capabilities.shared, 'process');
    const other = await another();
    const ear = listen(other);
    const { id } = await open();
    await ear.hears((change) => change.kind === 'created' && change.id === id, 'created elsewhere');
    await store.update(id, 1, { permissions: [] });
    await ear.hears((change) => change.kind === 'changed' && change.version === 2, 'changed elsewhere');
    await store.end(id);
    await ear.hears((change) => change.kind === 'ended' && change.id === id, 'ended elsewhere');
    assert.ok(ear.heard.every((change) => !('here' in change) || !change.here));
  });

  tell('whoever stops watching hears no more', async ({ store, open }) => {
    const [first, second] = [listen(store), listen(store)];
    const { id } = await open();
    for (const ear of [first, second]) await ear.hears(({ kind }) => kind === 'created', 'created');
    first.stop();
    await store.end(id);
    await second.hears(({ kind }) => kind === 'ended', 'ended');
    assert.equal(
      first.heard.some(({ kind }) => kind === 'ended'),
      false,
    );
  });
}
