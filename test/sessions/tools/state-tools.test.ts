import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Session } from '../../../src/sessions/session.ts';
import type { ToolCaller } from '../../../src/sessions/tools/tool.ts';
import { asHolder, asLocal, codeIn, createTestSessions, type TestSessions } from './test-sessions.ts';

let all: TestSessions;
let session: Session;
let now = 1_000_000;

beforeEach(async () => {
  now = 1_000_000;
  all = createTestSessions({ now: () => now, stateLimits: { valueBytes: 100, keys: 3, totalBytes: 250 } });
  session = await all.open('ada');
});
afterEach(() => all.close());

function call(tool: string, args: object, caller: ToolCaller = asHolder(session)) {
  return all.tools.call(`session_state_${tool}`, { session: 'current', ...args }, caller);
}

async function getData(tool: string, args: object, caller?: ToolCaller): Promise<unknown> {
  const result = await call(tool, args, caller);
  expect(result.isError).toBeUndefined();
  expect(JSON.parse(result.content[0].text)).toEqual(result.structuredContent);
  return result.structuredContent;
}

describe('state', () => {
  test('L15: is kept from one call to the next', async () => {
    const absent = { key: 'step', found: false, value: null, version: 0, expiresAt: null };
    expect(await getData('get', { key: 'step' })).toEqual(absent);
    const value = { at: [1, null, 'x'] };
    expect(await getData('set', { key: 'step', value })).toEqual({ key: 'step', version: 1 });
    expect(await getData('get', { key: 'step' })).toMatchObject({ found: true, value, version: 1 });
    expect(await getData('list', {})).toMatchObject({ keys: [{ key: 'step', version: 1 }], next: null });
    expect(await getData('delete', { key: 'step' })).toEqual({ key: 'step', deleted: true });
    expect(await getData('delete', { key: 'step' })).toEqual({ key: 'step', deleted: false });
  });

  test('L15: of several writes on the same version, one succeeds', async () => {
    const tries = await Promise.all([1, 2, 3].map((value) => call('set', { key: 'lock', value, expectedVersion: 0 })));
    expect(tries.map(codeIn).sort()).toEqual(['STATE_CONFLICT', 'STATE_CONFLICT', undefined]);
    const [refused] = tries.filter((each) => each.isError);
    expect(refused?.content[0].text).toMatch(/^STATE_CONFLICT: .*version 1.*session_state_get/);
    expect(refused).not.toHaveProperty('structuredContent');
    expect(codeIn(await call('delete', { key: 'lock', expectedVersion: 7 }))).toBe('STATE_CONFLICT');
    expect(await getData('delete', { key: 'lock', expectedVersion: 1 })).toMatchObject({ deleted: true });
  });

  test('lasts as long as it was told to', async () => {
    await getData('set', { key: 'brief', value: 1, ttlSeconds: 10 });
    expect(await getData('get', { key: 'brief' })).toMatchObject({ expiresAt: new Date(1_010_000).toISOString() });
    now += 10_000;
    expect(await getData('get', { key: 'brief' })).toMatchObject({ found: false });
  });

  test('has limits, which say what to do', async () => {
    const large = await call('set', { key: 'k', value: 'x'.repeat(101) });
    expect(large.content[0].text).toMatch(/^STATE_FULL: .*larger.*smaller value/);
    for (const key of ['a', 'b']) await getData('set', { key, value: 'x'.repeat(90) });
    expect((await call('set', { key: 'c', value: 'x'.repeat(90) })).content[0].text).toMatch(/STATE_FULL.*delete/i);
    await getData('set', { key: 'c', value: 1 });
    expect((await call('set', { key: 'd', value: 1 })).content[0].text).toMatch(/limit of keys.*session_state_delete/);
    expect(codeIn(await call('set', { key: 'x'.repeat(257), value: 1 }))).toBe('REQUEST_INVALID');
    expect(codeIn(await call('set', { key: '\ud800', value: 1 }))).toBe('REQUEST_INVALID');
  });

  test('of a session is its own', async () => {
    await getData('set', { key: 'mine', value: 'secret' });
    const other = await all.open('ada');
    expect(await getData('get', { key: 'mine' }, asHolder(other))).toMatchObject({ found: false });
    const forged = await call('get', { session: session.id, key: 'mine' }, asHolder(other));
    expect(codeIn(forged)).toBe('SESSION_NOT_FOUND');
    const child = await all.open('ada', { parentId: session.id });
    expect(codeIn(await call('get', { session: session.id, key: 'mine' }, asHolder(child)))).toBe('SESSION_NOT_FOUND');
    await getData('set', { session: child.id, key: 'task', value: 1 });
    expect(await getData('get', { key: 'task' }, asHolder(child))).toMatchObject({ found: true, value: 1 });
  });

  test('values in disguise stay what they are', async () => {
    const value = JSON.parse('{"__proto__":{"admin":true},"constructor":1}') as object;
    await getData('set', { key: '__proto__', value });
    const { structuredContent } = await call('get', { key: '__proto__' });
    expect(JSON.stringify(structuredContent?.['value'])).toBe('{"__proto__":{"admin":true},"constructor":1}');
    expect(Object.hasOwn(Object.prototype, 'admin')).toBe(false);
    for (const wrong of [{}, { value: undefined }]) {
      expect(codeIn(await call('set', { key: 'k', ...wrong }))).toBe('REQUEST_INVALID');
    }
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(codeIn(await call('set', { key: 'k', value: deep }))).toBe('REQUEST_INVALID');
  });
});

describe('arguments', () => {
  test('that do not fit are refused in words', async () => {
    const wrong: unknown[] = [1, 'current', [], { session: 1 }, { session: '' }, { session: null }];
    wrong.push({ session: ['current'] }, { session: { toString: 'current' } }, { session: 'current', userId: 'bob' });
    for (const { name } of all.tools.list()) {
      for (const args of wrong) {
        const result = await all.tools.call(name, args, asHolder(session));
        expect(codeIn(result)).toBe('REQUEST_INVALID');
        expect(result.content[0].text).toMatch(/^REQUEST_INVALID: The arguments are not valid/);
      }
    }
    expect(codeIn(await all.tools.call('session_nothing', {}, asHolder(session)))).toBe('REQUEST_INVALID');
  });

  test('"session" may be left out by whoever has one session; a user of several has to name one', async () => {
    const ceiling = { trustLevel: 'direct', workspaces: null, scopes: null } as const;
    const user: ToolCaller = { session, principal: { kind: 'user', userId: 'ada', via: 'key', ceiling } };
    await all.open('bob');
    const only = await all.tools.call('session_info', {}, user);
    expect(only.structuredContent).toMatchObject({ session: { id: session.id, current: true } });
    const child = await all.open('ada', { parentId: session.id });
    for (const caller of [asHolder(session), asLocal(session), asLocal(session, 'anonymous')]) {
      const info = await all.tools.call('session_info', {}, caller);
      expect(info.structuredContent).toMatchObject({ session: { id: session.id, current: true } });
    }
    for (const { name } of all.tools.list().filter((each) => each.name !== 'session_list')) {
      const args = /state/.test(name) ? { key: 'k', value: 1 } : {};
      expect(codeIn(await all.tools.call(name, args, user))).toBe('REQUEST_INVALID');
    }
    const { structuredContent } = await all.tools.call('session_list', {}, user);
    expect(structuredContent?.['sessions']).toHaveLength([session, child].length);
    // A session beyond the bounds of the key does not count, and ended ones do not either.
    const narrow: ToolCaller = {
      session,
      principal: { ...user.principal, ceiling: { ...ceiling, workspaces: [] } } as ToolCaller['principal'],
    };
    await all.open('ada', { workspaceId: 'garden' });
    await all.sessions.end(child.id, 'closed');
    expect(codeIn(await all.tools.call('session_info', {}, user))).toBe('REQUEST_INVALID');
    expect(codeIn(await all.tools.call('session_info', {}, narrow))).toBeUndefined();
  });

  test('every tool takes "session", and says what it does', () => {
    const readingTools = [
      'session_info',
      'session_list',
      'session_state_get',
      'session_state_list',
      'session_search',
      'session_result',
    ];
    for (const { name, inputSchema, outputSchema, annotations } of all.tools.list()) {
      expect(inputSchema['properties']).toHaveProperty('session');
      expect(inputSchema['required'] ?? []).not.toContain('session');
      expect(inputSchema['additionalProperties']).toBe(false);
      expect(outputSchema.type).toBe('object');
      expect(annotations).toMatchObject({
        readOnlyHint: readingTools.includes(name),
        destructiveHint: ['session_end', 'session_state_delete'].includes(name),
      });
    }
    const set = all.tools.list().find(({ name }) => name === 'session_state_set');
    expect(set?.inputSchema['required']).toEqual(['key', 'value']);
  });
});
