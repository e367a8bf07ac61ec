import { createHash } from 'node:crypto';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AnswerOf } from '../../../src/entrances/control/routes.ts';
import { type AdminGateway, openAdminGateway } from '../../gateway/server-admin/admin-gateway.ts';
import { callModern } from '../../journeys/raw-mcp-client.ts';

let admin: AdminGateway;
beforeAll(async () => {
  admin = await openAdminGateway('version: 1\n');
});
afterAll(() => admin.close());

/** Reads the events from the first one on until one names this session. */
async function readEvents(headers: Readonly<Record<string, string>>, id: string): Promise<string> {
  const { body } = await fetch(`${admin.url}/api/v1/events`, { headers: { ...headers, 'last-event-id': '0' } });
  let heard = '';
  for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    heard += chunk;
    if (heard.includes(id) && heard.endsWith('\n\n')) break;
  }
  return heard;
}

/** Reads an address as text. The answer must be a success. */
async function read(path: string, headers: Readonly<Record<string, string>>): Promise<string> {
  const response = await fetch(`${admin.url}/api/v1${path}`, { headers });
  expect([path, response.status]).toEqual([path, 200]);
  return response.text();
}

test('a viewer sees no credential in the task or the metadata of a session, and an admin sees what was written', async () => {
  const metadata = {
    ticket: 'T-7',
    count: 3,
    login: [{ api_token: 'word-1', more: { pin: 1 } }],
    tokens: { ci: ['word-2', 2] },
    url: 'https://me:word-3@h.example/',
    nothing: null,
  };
  const task = 'Tidy up. password=word-4';
  const { id } = await admin.ask('POST /api/v1/sessions', { body: { name: 'tidy', task, metadata } });
  const viewer = await admin.signIn('viewer');
  const live = ['/sessions', `/sessions/${id}`, `/sessions/${id}/context`];
  for (const path of live) {
    expect(await read(path, viewer)).not.toContain('word-');
    expect(await read(path, admin.headers)).toContain('word-4');
  }
  expect(JSON.parse(await read(`/sessions/${id}`, viewer))).toMatchObject({
    name: 'tidy',
    task: 'Tidy up. password=[secret]',
    metadata: { ticket: 'T-7', count: 3, login: [{ api_token: '[secret]' }], tokens: { ci: ['[secret]', '[secret]'] } },
  });
  expect(await readEvents(viewer, id)).not.toContain('word-');
  expect(await readEvents(admin.headers, id)).toContain('word-4');
  await admin.ask('DELETE /api/v1/sessions/{id}', { id });
  expect(await read('/sessions/ended', viewer)).not.toContain('word-');
  expect(await read('/sessions/ended', admin.headers)).toContain('word-4');
});

const githubToken = `ghp_${'Ab1'.repeat(12)}`;

test('a viewer sees no credential in the messages of a session, and an admin sees what was written', async () => {
  const { id } = await admin.ask('POST /api/v1/sessions', { body: { name: 'inbox' } });
  const texts = [
    `Use ${githubToken} and password=word-5 there.`,
    '{"api_token":"word-6","pin":1}',
    'See you at https://h.example/.',
  ];
  for (const text of texts) await admin.ask('POST /api/v1/sessions/{id}/messages', { id, body: { text } });
  const viewer = await admin.signIn('viewer');
  type Inbox = AnswerOf<'GET /api/v1/sessions/{id}/messages'>;
  const textsFor = async (headers: Readonly<Record<string, string>>) =>
    (JSON.parse(await read(`/sessions/${id}/messages`, headers)) as Inbox).messages.map(({ text }) => text);
  expect(await textsFor(viewer)).toEqual(['Use [secret] and password=[secret] there.', expect.any(String), texts[2]]);
  expect(await read(`/sessions/${id}/messages`, viewer)).not.toMatch(/ghp_|word-/);
  expect(await textsFor(admin.headers)).toEqual(texts);
});

describe('the keys of the state of a session', () => {
  const tokenOf = (letter: string) => `ghp_${letter}${'Ab1'.repeat(12)}`;
  const keys = ['a', tokenOf('c'), tokenOf('m'), tokenOf('x'), 'z'];
  const shown = ['a', '[secret]', '[secret]', '[secret]', 'z', 'w', '[secret]'];
  let id: string;
  let viewer: Readonly<Record<string, string>>;
  beforeAll(async () => {
    mkdirSync(join(admin.folder, 'garden'));
    const workspaces = { garden: { path: join(admin.folder, 'garden') } };
    writeFileSync(admin.configFile, JSON.stringify({ version: 1, workspaces }));
    await admin.gateway.reload(admin.configFile);
    const opened = await admin.ask('POST /api/v1/sessions', { body: { name: 'state', workspaceId: 'garden' } });
    id = opened.id;
    const set = (args: object) =>
      callModern(`${admin.url}/mcp`, opened.token, 'session_state_set', JSON.stringify({ value: 1, ...args }));
    for (const key of keys) await set({ key });
    for (const key of ['w', `x-${githubToken}`]) await set({ key, scope: 'workspace' });
    viewer = await admin.signIn('viewer');
  });

  type State = AnswerOf<'GET /api/v1/sessions/{id}/state'>;

  async function listKeys(limit: number, headers: Readonly<Record<string, string>>) {
    const found: string[] = [];
    const texts: string[] = [];
    for (let after: string | null = ''; after !== null; ) {
      const more: string = after === '' ? '' : `&after=${encodeURIComponent(after)}`;
      const text = await read(`/sessions/${id}/state?limit=${limit}${more}`, headers);
      const page = JSON.parse(text) as State;
      expect(page.keys.length).toBeLessThanOrEqual(limit);
      texts.push(text);
      found.push(...page.keys.map(({ key }) => key));
      after = page.next;
    }
    return { found, text: texts.join('') };
  }

  test.each([1, 2, 3, 7, 100])(
    'hide credentials from a viewer in pages of %i, also where the next page begins',
    async (limit) => {
      const { found, text } = await listKeys(limit, viewer);
      expect(found.map((key) => key.replace('x-[secret]', '[secret]'))).toEqual(shown);
      expect(text).not.toContain('ghp_');
      expect((await listKeys(limit, admin.headers)).found).toEqual([...keys, 'w', `x-${githubToken}`]);
    },
  );

  test('are not found out by a viewer who asks what comes after a guess', async () => {
    for (const guess of ['session:ghp_d', 'workspace:', 'ghp_d', '-1', '1.5', '1e2', '']) {
      const path = `/sessions/${id}/state?after=${encodeURIComponent(guess)}`;
      const { status } = await fetch(`${admin.url}/api/v1${path}`, { headers: viewer });
      expect([guess, status]).toEqual([guess, 400]);
    }
  });

  test.each(['0', '1001', '1.5', 'x', ''])('are not listed with the limit "%s"', async (limit) => {
    for (const headers of [viewer, admin.headers]) {
      const response = await fetch(`${admin.url}/api/v1/sessions/${id}/state?limit=${limit}`, { headers });
      expect(response.status).toBe(400);
    }
  });
});

const sha256 = (data: string) => createHash('sha256').update(data).digest('hex');

describe('the arguments of servers', () => {
  const script = () => join(admin.folder, 'word-script.mjs');
  const data = () => join(admin.folder, 'word-settings.mjs');
  let viewer: Readonly<Record<string, string>>;

  async function write(servers: Readonly<Record<string, object>>): Promise<void> {
    writeFileSync(admin.configFile, JSON.stringify({ version: 1, servers }));
    await admin.gateway.reload(admin.configFile);
  }

  async function approve(id: string): Promise<void> {
    const { definitionHash, pinsHash } = await admin.ask('POST /api/v1/servers/{id}/review', { id });
    await admin.ask('POST /api/v1/servers/{id}/approve', { id, body: { definitionHash, pinsHash } });
  }

  /** Reads everything that says something about a server. */
  async function readAll(name: string, headers: Readonly<Record<string, string>>): Promise<string> {
    const paths = ['/servers', `/servers/${name}`, '/status'];
    return (await Promise.all(paths.map((path) => read(path, headers)))).join('\n');
  }

  beforeAll(async () => {
    viewer = await admin.signIn('viewer');
    for (const file of [script(), data()]) writeFileSync(file, 'setInterval(() => {}, 1000);\n');
  });

  test('cannot be guessed by a viewer from hashes, nor read from the paths of pinned files', async () => {
    const args = [script(), '-phunter42'];
    const env = { PIN: '4711', SETTINGS: data() };
    const far = { url: 'https://far.example/mcp?key=k1', headers: { 'x-pin': '4711' }, imported: 'x' };
    await write({ theirs: { command: 'node', args, env, imported: 'x' }, far });
    await approve('theirs');
    const text = await readAll('theirs', viewer);
    expect(text).not.toMatch(/word-|hunter42|[0-9a-f]{64}/);
    expect(text).not.toContain(sha256('4711'));
    const details = JSON.parse(await read('/servers/theirs', viewer));
    expect(details).toMatchObject({ definitionHash: null, pinsHash: null });
    expect(details.definition).toMatchObject({ args: null, argCount: 2, files: null, fileCount: 2 });
    const hash = expect.stringMatching(/^[0-9a-f]{64}$/);
    const whole = await admin.ask('GET /api/v1/servers/{id}', { id: 'theirs' });
    expect(whole).toMatchObject({ definitionHash: hash, pinsHash: hash, definition: { fileCount: 2 } });
    expect(whole.definition.kind === 'stdio' && whole.definition.files?.map(({ path }) => path).sort()).toEqual(
      [script(), data()].sort(),
    );
    expect(JSON.parse(await read('/servers/far', viewer))).toMatchObject({ definitionHash: null, pinsHash: null });
  });

  test('are not read by a viewer from what has changed about pinned files', async () => {
    await write({ theirs: { command: 'node', args: [script()], env: { SETTINGS: data() }, imported: 'x' } });
    await approve('theirs');
    writeFileSync(script(), 'changed();\n');
    writeFileSync(data(), 'changed();\n');
    expect(await readAll('theirs', viewer)).not.toContain('word-');
    expect(JSON.parse(await read('/servers/theirs', viewer))).toMatchObject({
      approval: 'changed',
      changes: ['script: changed'],
    });
    expect(await readAll('theirs', admin.headers)).toContain('script word-script.mjs: content changed');
  });

  test('are not read by a viewer from the reason why a file is too large', async () => {
    const large = join(admin.folder, 'word-large.mjs');
    writeFileSync(large, '');
    await write({ theirs: { command: 'node', args: [large], imported: 'x' } });
    await approve('theirs');
    truncateSync(large, 300 * 1024 * 1024);
    expect(await readAll('theirs', viewer)).not.toContain('word-');
    const { definition, changes } = JSON.parse(await read('/servers/theirs', viewer));
    expect(definition.problem).toMatch(/^a file is too large to pin: /);
    expect(changes[0]).toMatch(/^command: a file is too large to pin: /);
    expect(await readAll('theirs', admin.headers)).toContain(`${large} is too large to pin: `);
  });

  test('are not read by a viewer from the reason why a server will not start in a session', async () => {
    await write({ theirs: { command: 'node', args: ['word-7.js'] }, gone: { command: '/no/such-program' } });
    const { id } = await admin.ask('POST /api/v1/sessions', { body: { name: 'starts', trustLevel: 'direct' } });
    const text = await read(`/sessions/${id}/context`, viewer);
    expect(text).not.toContain('word-7');
    const problems = JSON.parse(text).servers.map(({ problem }: { readonly problem?: string }) => problem);
    expect(problems).toEqual([expect.any(String), expect.any(String)]);
    expect(await read(`/sessions/${id}/context`, admin.headers)).toContain('word-7.js');
  });
});
