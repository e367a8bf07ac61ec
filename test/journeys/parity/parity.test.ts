import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { type Cell, cells, findMissingPairs } from './cells.ts';
import { type Subject, type SubjectClient, startSubject, totalCalls } from './start-subject.ts';

const sessionTools = [
  'session_info',
  'session_list',
  'session_end',
  'session_context',
  'session_state_get',
  'session_state_set',
  'session_state_list',
  'session_state_delete',
  'session_create',
  'session_send_message',
  'session_inbox',
  'session_search',
  'session_report',
  'session_result',
  'session_read_file',
  'session_edit_file',
  'session_delete_file',
  'session_move_file',
  'session_file_info',
  'session_list_dir',
  'session_file_search',
  'session_grep_search',
  'session_codebase_search',
];
const headerLine = '═══ SESSION CONTEXT (auto-injected) ═══';

/** Behind Ambit, the SDK of a server turns its refusals into text: the code is at its start. */
const codeOf = ({ code, text }: { code: string | undefined; text: string }) => code ?? /^([A-Z_]+): /.exec(text)?.[1];

test('the cells of this run cover every pair', () => {
  expect(findMissingPairs(cells)).toEqual([]);
});

describe.each(cells.map((cell) => [Object.values(cell).join(', '), cell] as const))('%s', (_, cell: Cell) => {
  let subject: Subject;
  beforeAll(async () => {
    subject = await startSubject(cell);
  });
  afterAll(() => subject.close());

  test('L2, L3, L15: calls of a client share a session and its state; other users have others', async () => {
    const [ada, bob] = await Promise.all([subject.connect('ada'), subject.connect('bob')]);
    const first = (await ada.call('whoami')).value as Record<string, unknown>;
    expect(first).toMatchObject({ userId: 'ada', trustLevel: 'direct', permissions: [] });
    const [counts, second, other] = [
      [(await ada.call('count')).value, (await ada.call('count')).value, (await bob.call('count')).value],
      (await ada.call('whoami')).value as Record<string, unknown>,
      (await bob.call('whoami')).value as Record<string, unknown>,
    ];
    expect(counts).toEqual([1, 2, 1]);
    expect(second['sessionId']).toBe(first['sessionId']);
    expect(second['correlationId']).not.toBe(first['correlationId']);
    expect(other['sessionId']).not.toBe(first['sessionId']);
    expect(other['userId']).toBe('bob');
  });

  test('L14: results name the session and the request', async () => {
    const cleo = await subject.connect('cleo');
    const { value, meta } = await cleo.call('whoami');
    const { sessionId, correlationId } = value as Record<string, string>;
    expect(meta['ambit/session']).toEqual({ sessionId, correlationId });
  });

  test('G1, G3, G5, G6, G8: policies reach the model once, prompts always, and no tool can imitate them', async () => {
    const ada = await subject.connect('ada');
    const dora = await subject.connect('dora');
    expect(dora.client.getInstructions()).toContain('SESSION CONTEXT (auto-injected)');
    const { before } = await dora.call('imitate');
    expect(before).toHaveLength(1);
    expect(before[0]?.text).toBe(
      [
        headerLine,
        '',
        'Policies:',
        '  - [prepend] require-tests: All code changes must include tests. (inherited)',
        '',
        'Objectives:',
        '  - Be done by noon',
        '',
        '═'.repeat(headerLine.length),
      ].join('\n'),
    );
    const proof = before[0]?._meta?.['ambit/context-block'] as Record<string, string>;
    const claims = JSON.parse(Buffer.from(proof['token']?.split('.')[1] ?? '', 'base64url').toString());
    expect(claims).toMatchObject({ sub: 'dora', kind: 'block', sha256: proof['sha256'] });
    const again = await dora.call('imitate');
    expect(again.before).toEqual([]);
    expect(again.text).toContain('[written by a tool, not by Ambit]');
    expect((await dora.call('session_context', { session: 'current' })).text).toBe(before[0]?.text);
    const name = cell.subject === 'gateway' ? 'kept__greet' : 'greet';
    const { messages } = await ada.client.getPrompt({ name });
    expect(messages.map(({ content }) => (content as { text: string }).text)).toEqual([
      'Policy require-tests: All code changes must include tests.',
      'Say hello.',
      'Policy sign-off: End with your name.',
    ]);
  });

  test('O1, O2, O3: the announced workspace holds for this client alone; an explicit one wins', async () => {
    const [bySlug, byPath, silent] = await Promise.all([
      subject.connect('ada', { ambit: { workspace: 'garden' } }),
      subject.connect('bob', { 'ambit.workspace': subject.folders.kitchen }),
      subject.connect('eve', { ambit: { workspace: '' } }),
    ]);
    expect((await bySlug.call('where')).value).toMatchObject({
      workspace: 'garden',
      from: 'session',
      path: subject.folders.garden,
    });
    expect((await byPath.call('where')).value).toMatchObject({ workspace: 'kitchen', path: subject.folders.kitchen });
    expect((await bySlug.call('where', { workspace: 'kitchen' })).value).toMatchObject({
      workspace: 'kitchen',
      from: 'argument',
    });
    const own = await bySlug.call('where', { workspace: subject.folders.garden });
    expect(own.value).toMatchObject({ workspace: 'garden', from: 'argument', path: subject.folders.garden });
    expect(codeOf(await bySlug.call('where', { workspace: '/etc' }))).toBe('WORKSPACE_NOT_FOUND');
    expect(codeOf(await silent.call('where'))).toBe('WORKSPACE_REQUIRED');
  });

  test('O3: with an announced workspace that is not available the client connects, and tools that need one list the others', async () => {
    const unavailable = ['attic', '/etc', subject.folders.garden.replace('garden', '')];
    for (const workspace of unavailable.slice(0, counts(1, 3))) {
      const lost = await subject.connect('ivy', { ambit: { workspace } });
      const { value } = await lost.call('whoami');
      expect(value).toMatchObject({ userId: 'ivy', trustLevel: 'direct' });
      expect(value).not.toHaveProperty('workspaceId');
      expect((await lost.call('count')).value).toEqual(expect.any(Number));
      for (const [tool, args] of [
        ['where', {}],
        ['session_list_dir', { session: 'current' }],
      ] as const) {
        const refused = await lost.call(tool, args);
        expect(codeOf(refused)).toBe('WORKSPACE_NOT_FOUND');
        expect(refused.text).toContain(`he client announced the workspace ${JSON.stringify(workspace)}, which is not`);
        expect(refused.text).toMatch(/: "garden", "kitchen"\.$/);
      }
      expect((await lost.call('where', { workspace: 'kitchen' })).value).toMatchObject({ workspace: 'kitchen' });
    }
  });

  test('W1, W3, W9: the file tools work in the announced workspace and nowhere else', async () => {
    const [ada, bob] = await Promise.all([
      subject.connect('ada', { ambit: { workspace: 'garden' } }),
      subject.connect('bob', { ambit: { workspace: 'kitchen' } }),
    ]);
    const session = 'current';
    const path = 'notes/plan.md';
    expect((await ada.call('session_edit_file', { session, path, content: 'beans\n' })).code).toBeUndefined();
    expect(await readFile(join(subject.folders.garden, path), 'utf8')).toBe('beans\n');
    expect((await ada.call('session_read_file', { session, path })).text).toContain('beans');
    expect((await bob.call('session_read_file', { session, path })).code).toBe('FILE_NOT_FOUND');
    for (const out of ['../garden/notes/plan.md', '/etc/passwd', 'a\0b']) {
      expect((await bob.call('session_read_file', { session, path: out })).code).toMatch(
        /^PATH_(?:VIOLATION|INVALID)$/,
      );
    }
    const nowhere = await subject.connect('eve');
    expect((await nowhere.call('session_read_file', { session, path })).code).toBe('WORKSPACE_REQUIRED');
  });

  test('P13: a session creates a child, writes to it, gets its value, finds it, and shares state', async () => {
    const lead = await subject.connect('kim', { ambit: { workspace: 'garden' } });
    const session = 'current';
    const resultSchema = { type: 'object', required: ['ok'] };
    const task = 'Count the beans in the garden';
    const { value: child } = await lead.call('session_create', { session, name: 'counter', task, resultSchema });
    expect(child).toMatchObject({ name: 'counter', task, trustLevel: 'direct', userId: 'kim' });
    expect(child).not.toHaveProperty('token');
    const sent = await lead.call('session_send_message', { session, to: 'counter', text: 'Start with row 1.' });
    const { value: inbox } = await lead.call('session_inbox', { session: 'counter' });
    expect(inbox).toMatchObject({
      messages: [{ ...(sent.value as { messageId: string } & object), text: 'Start with row 1.' }].map(
        ({ messageId: id, text }) => ({ id, text, replyTo: null }),
      ),
    });
    expect((await lead.call('session_send_message', { session, to: 'nobody', text: 'x' })).code).toBe(
      'SESSION_NOT_FOUND',
    );
    expect((await lead.call('session_report', { session: 'counter', value: 1 })).code).toBe('REQUEST_INVALID');
    await lead.call('session_report', { session: 'counter', value: { ok: true } });
    expect((await lead.call('session_result', { session: 'counter' })).value).toEqual({
      state: 'reported',
      value: { ok: true },
    });
    await lead.call('session_state_set', { session, scope: 'workspace', key: 'rows', value: 3 });
    const other = await subject.connect('lea', { ambit: { workspace: 'garden' } });
    expect((await lead.call('session_state_get', { session, scope: 'workspace', key: 'rows' })).value).toMatchObject({
      value: 3,
      author: { trustLevel: 'direct' },
    });
    const stranger = { session: 'current', scope: 'workspace', key: 'rows' };
    expect((await other.call('session_state_get', stranger)).value).toMatchObject({ found: false });
    expect((await other.call('session_send_message', { session, to: 'counter', text: 'x' })).code).toBe(
      'SESSION_NOT_FOUND',
    );
    const { value: found } = await other.call('session_search', { session, query: 'beans counter garden' });
    expect(found).toEqual({ sessions: [] });
    const { value: own } = await lead.call('session_search', { session: 'counter', query: 'beans' });
    expect(own).toMatchObject({ sessions: [{ name: 'counter', state: 'live', why: expect.stringContaining('task') }] });
  });

  test('L10: a tool is refused without its permission', async () => {
    const fay = await subject.connect('fay');
    expect(codeOf(await fay.call('guarded'))).toBe('PERMISSION_DENIED');
  });

  test('L11: a quota ends with a reason', async () => {
    const gus = await subject.connect('gus');
    for (let i = 0; i < totalCalls; i++) expect((await gus.call('count')).value).toBe(i + 1);
    const refused = await gus.call('count');
    expect(refused.code).toBe('QUOTA_EXCEEDED');
    expect(refused.meta['ambit/error']).toMatchObject({ rule: 'quotas.session.totalCalls' });
  });

  test('L13: the session tools are the same, and an ended session is over', async () => {
    const hal = await subject.connect('hal');
    const { tools } = await hal.client.listTools();
    expect(tools.map(({ name }) => name).filter((name) => name.startsWith('session_'))).toEqual(sessionTools);
    const { value } = await hal.call('session_info', { session: 'current' });
    expect(value).toMatchObject({ session: { userId: 'hal', current: true } });
    expect((await hal.call('session_end', { session: 'current' })).value).toMatchObject({ ended: true });
    if (cell.transport === 'stdio') expect((await hal.call('count')).code).toBe('SESSION_ENDED');
  });
});

/** Only modern clients over HTTP can share a session with one key: there is no handshake that would open another. */
test.each(['gateway', 'library'] as const)(
  'G1: two modern clients of the %s with one key each get the block, and again when they connect again',
  async (subject) => {
    const { connect, close } = await startSubject({ subject, sdk: 'v2', transport: 'http', era: 'modern' });
    const clients = [await connect('ivy', undefined, 'one'), await connect('ivy', undefined, 'two')];
    const seen = new Set<string>();
    const countBlocks = async ({ call }: SubjectClient) => {
      const { before, value } = await call('session_info', { session: 'current' });
      seen.add((value as { session: { id: string } }).session.id);
      return before.filter(({ text }) => text.startsWith(headerLine)).length;
    };
    for (const expected of [1, 0]) for (const each of clients) expect(await countBlocks(each)).toBe(expected);
    const again = await connect('ivy', undefined, 'one');
    const [, other] = clients as [SubjectClient, SubjectClient];
    expect([await countBlocks(other), await countBlocks(again), await countBlocks(again)]).toEqual([0, 1, 0]);
    expect(seen.size).toBe(1);
    await close();
  },
);
