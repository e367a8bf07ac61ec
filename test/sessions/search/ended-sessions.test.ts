import { afterEach, describe, expect, test, vi } from 'vitest';
import { createNewSession } from '../../../src/public/testing/store-suite/harness.ts';
import { createLifecycle } from '../../../src/sessions/events/lifecycle.ts';
import { createEndedSessions, type EndedQuery } from '../../../src/sessions/search/ended-sessions.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { NewSession } from '../../../src/stores/record.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { createTestClock } from '../../stores/test-clock.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const dayMs = 86_400_000;

function openEnded({ maxPerDay = 100 } = {}) {
  const clock = createTestClock();
  const store = openMemoryStore({ now: clock.now });
  const open = () => {
    const lifecycle = createLifecycle(store);
    const ended = createEndedSessions({ store, lifecycle, now: clock.now, maxPerDay });
    closing.push(() => ended.close(), lifecycle.close);
    return ended;
  };
  return {
    ...clock,
    store,
    ended: open(),
    /** Opens and ends a session. */
    async end(id: string, changes: Partial<NewSession> = {}) {
      await store.create(createNewSession({ id, name: null, ...changes }));
      clock.advance(1000);
      await store.end(id);
    },
    async list(query: Partial<EndedQuery> = {}) {
      const { sessions, next } = await this.ended.list({ limit: 100, ...query });
      return { ids: sessions.map(({ id }) => id), sessions, next };
    },
  };
}

async function readAll(store: SessionStore, day: string) {
  return (await store.documents.list(`ended-sessions-${day}`, { limit: 1000 })).documents;
}

describe('sessions that have ended', () => {
  test('are listed newest first, with when and why they ended', async () => {
    const all = openEnded();
    await all.end('first-one', { name: 'task#1', task: 'x'.repeat(2000), workspaceId: 'garden', agentId: 'coder' });
    await all.store.create(createNewSession({ id: 'expired-one', name: null, ttlSeconds: 5 }));
    await all.store.create(createNewSession({ id: 'live-one', name: null }));
    all.advance(7000);
    await all.store.sweep();
    const { sessions, next } = await all.list();
    expect(next).toBeNull();
    expect(sessions.map(({ id, reason }) => [id, reason])).toEqual([
      ['expired-one', 'expired'],
      ['first-one', 'ended'],
    ]);
    const [expired, first] = sessions;
    expect(expired?.endedAt).toBe((expired?.createdAt ?? 0) + 5000);
    expect(first).toMatchObject({ name: 'task#1', workspaceId: 'garden', agentId: 'coder', task: 'x'.repeat(1000) });
    expect(first).not.toHaveProperty('tokenDigests');
  });

  test('are listed in pages over several days, by user, workspace, id and time', async () => {
    const all = openEnded();
    for (let day = 0; day < 4; day++) {
      for (const name of ['ada', 'bob']) {
        await all.end(`${name}-${day}-session`, { userId: name, workspaceId: day % 2 === 0 ? 'even' : 'odd' });
      }
      // Listing writes them, before the store forgets them.
      expect((await all.list()).ids).toHaveLength(2 * (day + 1));
      all.advance(dayMs);
    }
    const pages: string[] = [];
    for (let after: string | null | undefined; after !== null; ) {
      const page = await all.list({ limit: 3, ...(after === undefined ? {} : { after }) });
      pages.push(...page.ids);
      after = page.next;
    }
    expect(pages).toEqual([3, 2, 1, 0].flatMap((day) => [`bob-${day}-session`, `ada-${day}-session`]));
    expect((await all.list({ userId: 'ada', workspaceId: 'odd' })).ids).toEqual(['ada-3-session', 'ada-1-session']);
    expect((await all.list({ id: 'bob-2' })).ids).toEqual(['bob-2-session']);
    expect((await all.list({ since: all.now() - 1.5 * dayMs })).ids).toEqual(['bob-3-session', 'ada-3-session']);
    await expect(all.list({ after: '2026-99-99/00000000/x' })).rejects.toMatchObject({ code: 'REQUEST_INVALID' });
  });

  test('a cursor from far in the future does not make the store search all days until then', async () => {
    const all = openEnded();
    await all.end('only-one');
    await all.list();
    const questions = vi.spyOn(all.store.documents, 'list');
    expect(await all.list({ after: '9999-12-31/00000000/x' })).toMatchObject({ ids: ['only-one'], next: null });
    expect(questions.mock.calls.length).toBeLessThan(40);
  });

  test('are kept for 30 days, and a limited number of a day', async () => {
    const all = openEnded({ maxPerDay: 20 });
    const day = new Date(all.now()).toISOString().slice(0, 10);
    for (let index = 10; index < 40; index++) await all.end(`session-${index}`);
    const { ids } = await all.list();
    expect(ids.length).toBeLessThanOrEqual(20);
    expect(ids[0]).toBe('session-39');
    all.advance(31.5 * dayMs);
    expect((await all.list()).ids).toEqual([]);
    expect(await readAll(all.store, day)).not.toEqual([]);
    await all.end('later-session');
    await expect.poll(() => readAll(all.store, day)).toEqual([]);
    expect((await all.list()).ids).toEqual(['later-session']);
  });

  test('leave no entry of a removed user, also those that end a moment later', async () => {
    const all = openEnded();
    await all.end('ended-before', { userId: 'ada' });
    await all.end('other-user-session', { userId: 'bob' });
    await all.store.create(createNewSession({ id: 'ends-later', userId: 'ada', name: null }));
    await all.ended.forgetUser('ada');
    await all.store.end('ends-later');
    expect((await all.list()).ids).toEqual(['other-user-session']);
    all.advance(1000);
    await all.end('namesake-session', { userId: 'ada' });
    expect((await all.list()).ids).toEqual(['namesake-session', 'other-user-session']);
  });

  test('S7: are listed for one reader after the other, and not for a client that has left or that asks too often', async () => {
    const all = openEnded();
    await all.end('only-one', { name: 'shift' });
    await all.list();
    const questions = vi.spyOn(all.store.documents, 'list');
    const leaving = new AbortController();
    const ask = (reader: string, signal?: AbortSignal) =>
      all.ended.listInTurn({ name: 'shift', limit: 10, signal }, { reader });
    await ask('ada');
    const once = questions.mock.calls.length;
    const crowd = Array.from({ length: 30 }, (_, i) => ask('ada', i < 2 ? undefined : leaving.signal));
    const other = ask('bob');
    leaving.abort();
    const found = await Promise.allSettled(crowd);
    expect(found.map(({ status }) => status).lastIndexOf('fulfilled')).toBe(17);
    expect(found.at(-1)).toMatchObject({ reason: { code: 'OVERLOADED' } });
    expect((await other).sessions.map(({ id }) => id)).toEqual(['only-one']);
    expect(questions.mock.calls.length).toBe(4 * once);
  });

  test('are written at the end of the process', async () => {
    const all = openEnded();
    await all.end('last-session');
    await all.ended.close();
    expect((await all.list()).ids).toEqual(['last-session']);
  });
});
