import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '../../../src/sessions/session.ts';
import { createSessionReach, listForMatch, matchSession } from '../../../src/sessions/tools/reach.ts';
import type { ToolCaller } from '../../../src/sessions/tools/tool.ts';
import type { SessionRecord } from '../../../src/stores/record.ts';
import type { SessionStore } from '../../../src/stores/store.ts';
import { counts, proof } from '../../proof.ts';
import { runBench } from '../../run-bench.ts';
import { asHolder, asLocal, codeIn, createTestSessions, type TestSessions } from './test-sessions.ts';

let all: TestSessions;
let ada: Session;
let child: Session;
let grandchild: Session;
let sibling: Session;
let bob: Session;

beforeEach(async () => {
  all = createTestSessions();
  ada = await all.open('ada', { id: 'aaaa-own-session', name: 'task#1' });
  child = await all.open('ada', { id: 'aaab-child-of-ada', name: 'task#2', parentId: ada.id });
  grandchild = await all.open('ada', { id: 'aaac-grandchild', parentId: child.id });
  sibling = await all.open('ada', { id: 'bbbb-sibling-one', name: 'sibling' });
  bob = await all.open('bob', { id: 'cccc-of-bob-alone', name: 'secret' });
});
afterEach(() => all.close());

async function getInfo(reference: unknown, caller: ToolCaller): Promise<string> {
  const result = await all.tools.call('session_info', { session: reference }, caller);
  const shown = result.structuredContent?.['session'] as { id: string } | undefined;
  return shown?.id ?? (codeIn(result) as string);
}

describe('who reaches which session', () => {
  test('W2: by id, unique name, unique prefix and "current"', async () => {
    for (const reference of ['current', ada.id, 'task#1', 'aaaa'])
      expect(await getInfo(reference, asHolder(ada))).toBe(ada.id);
    for (const reference of [child.id, 'task#2', 'aaab'])
      expect(await getInfo(reference, asHolder(ada))).toBe(child.id);
    expect(await getInfo('aaac', asHolder(ada))).toBe(grandchild.id);
    expect(await getInfo('task#2', asLocal(ada))).toBe(child.id);
  });

  test('L13: a token reaches its own session and its descendants, nothing else', async () => {
    const forged = [bob.id, 'secret', 'cccc', sibling.id, 'sibling', 'bbbb', 'bbbb-sibling', 'nobody-knows-it'];
    for (const reference of forged) expect(await getInfo(reference, asHolder(ada))).toBe('SESSION_NOT_FOUND');
    // Not upwards either: a child does not reach who opened it.
    for (const reference of [ada.id, 'task#1', 'aaaa'])
      expect(await getInfo(reference, asHolder(child))).toBe('SESSION_NOT_FOUND');
    expect(await getInfo(grandchild.id, asHolder(child))).toBe(grandchild.id);
  });

  test('the local user reaches every session of the same user, and no other', async () => {
    expect(await getInfo(sibling.id, asLocal(ada))).toBe(sibling.id);
    expect(await getInfo(ada.id, asLocal(child))).toBe(ada.id);
    for (const reference of [bob.id, 'secret', 'cccc'])
      expect(await getInfo(reference, asLocal(ada))).toBe('SESSION_NOT_FOUND');
    // Those nobody knows are not one person.
    expect(await getInfo(sibling.id, asLocal(ada, 'anonymous'))).toBe('SESSION_NOT_FOUND');
    expect(await getInfo(child.id, asLocal(ada, 'anonymous'))).toBe(child.id);
  });

  test('S2: from a sandboxed session the local user reaches that session and its descendants', async () => {
    const boxed = { ...asLocal(ada), session: ada };
    for (const reference of [sibling.id, 'sibling', 'bbbb']) {
      expect(await getInfo(reference, boxed), reference).toBe('SESSION_NOT_FOUND');
    }
    expect(await getInfo(child.id, boxed)).toBe(child.id);
    expect(await getInfo(ada.id, { ...asLocal(child), session: child })).toBe('SESSION_NOT_FOUND');
  });

  test('a narrow credential reaches only those sessions of its user that are within its bounds', async () => {
    const shop = await all.open('ada', { id: 'eeee-in-the-shop', name: 'till', workspaceId: 'shop' });
    const direct = await all.sessions.create({ userId: 'ada', trustLevel: 'direct', workspaceId: 'shop' });
    const ceiling = { trustLevel: 'sandboxed', workspaces: ['shop'], scopes: null } as const;
    const principal = { kind: 'user', userId: 'ada', via: 'key', ceiling } as const;
    const caller: ToolCaller = { session: shop, principal };
    const beyond = [sibling.id, 'sibling', 'bbbb', ada.id, direct.session.id, bob.id];
    for (const reference of beyond) expect(await getInfo(reference, caller), reference).toBe('SESSION_NOT_FOUND');
    const { structuredContent } = await all.tools.call('session_list', { session: 'current' }, caller);
    expect(structuredContent).toMatchObject({ sessions: [{ id: shop.id }] });
    const wide = { ...principal, ceiling: { trustLevel: 'direct', workspaces: null, scopes: null } } as const;
    expect(await getInfo('bbbb', { session: shop, principal: wide })).toBe(sibling.id);
  });

  test('what is beyond reach is answered, word for word, like what never was, by every tool', async () => {
    const others: Record<string, object> = {
      session_state_get: { key: 'k' },
      session_state_set: { key: 'k', value: 1 },
      session_state_delete: { key: 'k' },
      session_send_message: { to: 'current', text: 'x' },
      session_search: { query: 'x' },
      session_report: { value: 1 },
    };
    const gone = await all.open('ada', { id: 'dddd-ended-child', parentId: ada.id });
    await all.sessions.end(gone.id);
    for (const { name } of all.tools.list()) {
      for (const caller of [asHolder(ada), asLocal(ada)]) {
        const unknown = await all.tools.call(name, { session: 'zzzz-never-was', ...others[name] }, caller);
        expect(codeIn(unknown)).toBe('SESSION_NOT_FOUND');
        for (const reference of [bob.id, 'secret', 'cccc', gone.id, '\u0000', '../etc', '%', '_'.repeat(5000)]) {
          expect(await all.tools.call(name, { session: reference, ...others[name] }, caller)).toEqual(unknown);
        }
      }
    }
    expect(await all.store.get(bob.id)).toBeDefined();
    expect((await all.store.state.list(bob.id)).keys).toEqual([]);
  });

  test('the name of a session beyond reach does not hide the beginning of an id within', async () => {
    await all.open('ada', { name: 'aaab' });
    expect(await getInfo('aaab', asHolder(ada))).toBe(child.id);
  });

  test('what fits several is told only of those within reach', async () => {
    expect(await getInfo('aaa', asHolder(ada))).toBe('SESSION_NOT_FOUND');
    const other = await all.open('ada', { id: 'aaab-another-child', parentId: ada.id });
    expect(await getInfo('aaab', asHolder(ada))).toBe('REQUEST_INVALID');
    expect(await getInfo('aaab', asHolder(child))).toBe(child.id);
    expect(await getInfo('aaab-a', asHolder(ada))).toBe(other.id);
  });

  test('no reference reaches other sessions', async () => {
    const ids = [ada, child, grandchild, sibling, bob].map(({ id }) => id);
    const reference = fc.oneof(
      fc.string({ maxLength: 20 }),
      fc.constantFrom(...ids).chain((id) => fc.nat(id.length).map((cut) => id.slice(0, cut))),
      fc.constantFrom('current', 'sibling', 'secret', 'CURRENT', ' current', '__proto__', '*', '%'),
      fc.jsonValue(),
    );
    await fc.assert(
      fc.asyncProperty(reference, async (given) => {
        const reached = await getInfo(given, asHolder(child));
        expect([child.id, grandchild.id, 'SESSION_NOT_FOUND', 'REQUEST_INVALID']).toContain(reached);
        const byUser = await getInfo(given, asLocal(bob));
        expect([bob.id, 'SESSION_NOT_FOUND', 'REQUEST_INVALID']).toContain(byUser);
      }),
      { numRuns: counts(200, 5000) },
    );
  });

  test('another user’s session is nobody’s child', async () => {
    await expect(all.open('bob', { parentId: ada.id })).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await expect(all.open('ada', { parentId: 'zzzz-never-was' })).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    expect((await all.store.list()).sessions).toHaveLength(5);
  });
});

describe('a reference that is written in another way', () => {
  const callers = [
    ['a token', () => asHolder(ada)],
    ['the local user', () => asLocal(ada)],
  ] as const;
  let task: Session;
  beforeEach(async () => {
    task = await all.open('ada', { id: 'ffff-task-of-ada', name: 'task#049', parentId: ada.id });
    await all.open('bob', { name: 'bug#050' });
    await all.open('bob', { name: 'BUG#049' });
  });

  async function getText(reference: string, caller: ToolCaller): Promise<string> {
    const { content } = await all.tools.call('session_info', { session: reference }, caller);
    return content[0].text;
  }

  test.each(callers)('W2: a name in other letter case or its number alone, for %s', async (_, caller) => {
    for (const reference of ['049', '#049', 'TASK#049', 'Task#049', 'FFFF', 'FFFF-Task'])
      expect(await getInfo(reference, caller()), reference).toBe(task.id);
    // These are other texts, or names of other users.
    const others = ['49', '0049', '##049', 'ask#049', 'tas\u212a#049', '０４９', ' 049', '050', '#050', 'bug#049'];
    for (const reference of others)
      expect(await getInfo(reference, caller()), reference).toMatch(/^(?:SESSION_NOT_FOUND|REQUEST_INVALID)$/);
  });

  test.each(callers)('W2: an exact name or id is never hidden by a similar name, for %s', async (_, caller) => {
    const number = await all.open('ada', { name: '049', parentId: ada.id });
    const capital = await all.open('ada', { name: 'TASK#049', parentId: ada.id });
    const asId = await all.open('ada', { name: 'FFFF', parentId: ada.id });
    expect(await getInfo('049', caller())).toBe(number.id);
    expect(await getInfo('TASK#049', caller())).toBe(capital.id);
    expect(await getInfo('task#049', caller())).toBe(task.id);
    expect(await getInfo('FFFF', caller())).toBe(asId.id);
    expect(await getInfo('ffff', caller())).toBe(task.id);
  });

  test.each(callers)('W2: Ambit never chooses between several, for %s', async (_, caller) => {
    const bug = await all.open('ada', { name: 'bug#049', parentId: ada.id });
    await all.open('ada', { name: 'Task#049', parentId: ada.id });
    const named = async (reference: string) => (await getText(reference, caller())).match(/"\w+#\d+"/g)?.sort();
    expect(await named('#049')).toEqual(['"Task#049"', '"bug#049"', '"task#049"']);
    expect(await named('TASK#049')).toEqual(['"Task#049"', '"task#049"']);
    expect(await getInfo('#049', caller())).toBe('REQUEST_INVALID');
    expect(await getInfo('BUG#049', caller())).toBe(bug.id);
    // A number that begins an id and is the number of another name.
    const byId = await all.open('ada', { id: '2024-the-id-of-one', parentId: ada.id });
    expect(await getInfo('2024', caller())).toBe(byId.id);
    await all.open('ada', { name: 'task#2024', parentId: ada.id });
    expect(await getInfo('2024', caller())).toBe('REQUEST_INVALID');
    expect(await getInfo('2024-', caller())).toBe(byId.id);
  });

  test('W2: similar names are suggested, at most five, of sessions that the caller may use', async () => {
    const said = (names: string) => `has that id or name; did you mean ${names}? Use "current"`;
    expect(await getText('tsk#049', asHolder(ada))).toContain(said('"task#049"'));
    expect(await getText('issue-49', asLocal(ada))).toContain(said('"task#049"'));
    expect(await getText('siblin', asLocal(ada))).toContain(said('"sibling"'));
    for (const [reference, caller] of [
      ['siblin', asHolder(ada)],
      ['secre', asLocal(ada)],
      ['bug#05', asLocal(ada)],
      ['049', asHolder(child)],
      ['x'.repeat(513), asLocal(ada)],
    ] as const) {
      expect(await getText(reference, caller), reference).toBe(await getText('zzzz-never-was', caller));
    }
    for (let i = 0; i < 9; i++) await all.open('ada', { name: `step${i}`, parentId: ada.id });
    expect((await getText('step', asHolder(ada))).match(/"step\d"/g)).toHaveLength(5);
  });

  test('W2: a session that the credential may not use is neither found nor suggested, and does not disturb', async () => {
    const shop = await all.open('ada', { name: 'till#049', workspaceId: 'shop' });
    const ceiling = { trustLevel: 'sandboxed', workspaces: ['shop'], scopes: null } as const;
    const caller: ToolCaller = { session: shop, principal: { kind: 'user', userId: 'ada', via: 'key', ceiling } };
    const other = await all.open('ada', { name: 'Till#1', workspaceId: 'shop' });
    expect(await getInfo('049', caller)).toBe(shop.id);
    expect(await getInfo('TILL#1', caller)).toBe(other.id);
    expect(await getText('task#04', caller)).not.toContain('task#049');
  });

  test('session_end takes only an exact reference: repeated, a number could end a second session', async () => {
    for (const reference of ['049', '#049', 'TASK#049']) {
      const refused = await all.tools.call('session_end', { session: reference }, asHolder(ada));
      expect(codeIn(refused)).toBe('SESSION_NOT_FOUND');
      expect(refused.content[0].text).toContain('did you mean "task#049"?');
    }
    await all.open('ada', { name: 'bug#049', parentId: ada.id });
    await all.tools.call('session_end', { session: 'task#049' }, asHolder(ada));
    expect(codeIn(await all.tools.call('session_end', { session: 'task#049' }, asHolder(ada)))).toBe(
      'SESSION_NOT_FOUND',
    );
    expect(codeIn(await all.tools.call('session_end', { session: '049' }, asHolder(ada)))).toBe('SESSION_NOT_FOUND');
    expect(await getInfo('bug#049', asHolder(ada))).not.toBe('SESSION_NOT_FOUND');
  });

  test('beyond 1000 sessions nobody can say that a name is unique, so it is only suggested', async () => {
    const list: SessionStore['list'] = async (_filter, { limit = 0 } = {}) => ({
      sessions: Array.from({ length: limit }, () => record),
      next: 'more',
    });
    const record = { ...(await all.store.get(task.id)) } as SessionRecord;
    const listVisible = async () => {
      const listed = await listForMatch(list, {});
      expect(listed.sessions).toHaveLength(1000);
      return { ...listed, sessions: [record] };
    };
    expect(await matchSession('049', { found: [], listVisible })).toEqual({
      record: undefined,
      isAmbiguous: false,
      candidates: [record],
    });
  });
});

describe('session_list', () => {
  async function listed(caller: ToolCaller, more: object = {}): Promise<string[]> {
    const ids: string[] = [];
    let cursor: string | undefined;
    do {
      const args = { session: 'current', ...more, ...(cursor === undefined ? {} : { cursor }) };
      const { structuredContent } = await all.tools.call('session_list', args, caller);
      const page = structuredContent as { sessions: { id: string }[]; next: string | null };
      ids.push(...page.sessions.map(({ id }) => id));
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
    return ids;
  }

  test('L13: shows what the caller reaches, in pages', async () => {
    for (const limit of [1, 2, 200]) {
      expect(new Set(await listed(asHolder(ada), { limit }))).toEqual(new Set([ada.id, child.id, grandchild.id]));
      expect(await listed(asHolder(child), { limit })).toHaveLength(2);
      expect(await listed(asLocal(ada), { limit })).toHaveLength(4);
      expect(await listed(asLocal(bob), { limit })).toEqual([bob.id]);
    }
  });

  test('by workspace', async () => {
    const there = await all.open('ada', { parentId: child.id, workspaceId: 'shop' });
    await all.open('bob', { workspaceId: 'shop' });
    expect(await listed(asHolder(ada), { workspace: 'shop' })).toEqual([there.id]);
    expect(await listed(asLocal(ada), { workspace: 'shop' })).toEqual([there.id]);
    expect(await listed(asHolder(sibling), { workspace: 'shop' })).toEqual([]);
  });

  test('a page made up by the caller is refused, or shows no more', async () => {
    const result = await all.tools.call('session_list', { session: 'current', cursor: 'x' }, asHolder(ada));
    expect(codeIn(result)).toBe('REQUEST_INVALID');
    const skipped = await all.tools.call('session_list', { session: 'current', cursor: `0.${bob.id}` }, asHolder(ada));
    expect(JSON.stringify(skipped)).not.toContain('bob');
  });

  test('no digest and no metadata is shown', async () => {
    const answers = [];
    for (const caller of [asHolder(ada), asLocal(ada)]) {
      answers.push(await all.tools.call('session_list', { session: 'current' }, caller));
      answers.push(await all.tools.call('session_info', { session: 'current' }, caller));
    }
    const text = JSON.stringify(answers);
    expect(text).not.toMatch(/digest|metadata/i);
    for (const { tokenDigests } of (await all.store.list()).sessions) {
      for (const digest of tokenDigests) expect(text).not.toContain(digest);
    }
  });
});

describe('session_end', () => {
  test('L13: ends a descendant, with all that it opened', async () => {
    const result = await all.tools.call('session_end', { session: 'task#2' }, asHolder(ada));
    expect(result.structuredContent).toEqual({ id: child.id, ended: true });
    const left = (await all.store.list()).sessions.map(({ id }) => id);
    expect(left.sort()).toEqual([ada.id, sibling.id, bob.id].sort());
    expect((await all.store.remains(grandchild.id))?.reason).toBe('ended');
  });

  test('its own session, after which nothing can be asked of it', async () => {
    await all.tools.call('session_end', { session: 'current' }, asHolder(ada));
    expect((await all.store.list()).sessions.map(({ id }) => id).sort()).toEqual([sibling.id, bob.id]);
    const late = await all.tools.call('session_state_set', { session: 'current', key: 'k', value: 1 }, asHolder(ada));
    expect(codeIn(late)).toBe('SESSION_ENDED');
  });

  test('leaves parents, siblings and others alone', async () => {
    for (const reference of [ada.id, 'task#1', sibling.id, bob.id]) {
      expect(codeIn(await all.tools.call('session_end', { session: reference }, asHolder(child)))).toBe(
        'SESSION_NOT_FOUND',
      );
    }
    expect((await all.store.list()).sessions).toHaveLength(5);
  });
});

describe('W10: the session that a call names', () => {
  /** Counts what is asked of the store, and what it answers. */
  function countRequests(store: SessionStore) {
    const counted = { requests: 0, records: 0 };
    const count = async <T>(answer: Promise<T>, recordsIn: (answer: T) => number): Promise<T> => {
      counted.requests++;
      counted.records += recordsIn(await answer);
      return answer;
    };
    const watched: SessionStore = {
      ...store,
      get: (id) => count(store.get(id), () => 1),
      find: (...args) => count(store.find(...args), (found) => found.length),
      list: (...args) => count(store.list(...args), ({ sessions }) => sessions.length),
    };
    return { counted, reach: createSessionReach(watched) };
  }

  async function countCosts() {
    const ceiling = { trustLevel: 'direct', workspaces: null, scopes: null } as const;
    const byKey: ToolCaller = { session: ada, principal: { kind: 'user', userId: 'ada', via: 'key', ceiling } };
    const costs: Record<string, object> = {};
    for (const [who, caller] of Object.entries({ local: asLocal(ada), byKey, holder: asHolder(ada) })) {
      for (const reference of ['current', ada.id, child.id, 'task#2', 'aaab']) {
        const { counted, reach } = countRequests(all.store);
        await reach.find(reference, caller);
        costs[`${who}: ${reference}`] = counted;
      }
    }
    return costs;
  }

  test('is found with as many requests to the store and records from it, however many sessions there are', async () => {
    const few = await countCosts();
    expect(few).toMatchObject({
      'local: task#2': { requests: 1, records: 1 },
      'byKey: aaab': { requests: 1, records: 1 },
      'holder: current': { requests: 1, records: 1 },
    });
    for (let i = 0; i < 50; i++) await Promise.all([all.open('ada', { name: `more#${i}` }), all.open(`user-${i}`)]);
    expect(await countCosts()).toEqual(few);
  });

  test.runIf(proof)('is found in less than ten milliseconds among ten thousand', async () => {
    type Figures = Record<'id' | 'name' | 'prefix', { medianMs: number }> & { limitMs: number };
    const { limitMs, ...figures } = await runBench<Figures>('resolution.js', 'measureResolution');
    for (const way of ['id', 'name', 'prefix'] as const) expect(figures[way].medianMs, way).toBeLessThan(limitMs);
  });
});
