import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { AnswerOf } from '../../../src/entrances/control/routes.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { createNewSession } from '../../../src/public/testing/store-suite/harness.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { NewSession, SessionRecord } from '../../../src/stores/record.ts';
import { callModern, patience, readToolText } from '../../journeys/raw-mcp-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-inspector-'));
const dataDir = join(folder, 'data');
let gateway: EmbeddedGateway;
let url: string;
let headers: Record<string, string>;

beforeAll(async () => {
  for (const name of ['garden', 'shed']) mkdirSync(join(folder, name));
  gateway = await createGateway({
    dataDir,
    log: { info() {}, warn() {} },
    config: {
      version: 1,
      servers: {
        notes: {
          command: 'node',
          env: { TOKEN: 'hush-env' },
          tools: { permissions: { add: 'notes:write', 'drop*': 'notes:admin' }, deny: ['purge'] },
        },
        web: { url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': 'hush-header' } },
      },
      workspaces: {
        garden: { path: join(folder, 'garden'), trust: 'sandboxed' },
        shed: { path: join(folder, 'shed'), capabilities: { servers: 'none' } },
      },
      sessions: { defaultTrust: 'direct' },
      quotas: { session: { totalCalls: 50 }, user: { callsPerMinute: 900 } },
      rules: [{ id: 'no-weeds', deny: 'notes__*', when: "args.plant == 'weed'" }],
      governance: { policies: [{ name: 'tone', text: 'Be kind.' }] },
    },
  });
  url = (await gateway.listen({ port: 0 })).url;
  const token = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

async function ask(method: string, path: string, body?: object): Promise<{ status: number; text: string }> {
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${url}/api/v1${path}`, { method, headers, ...sent });
  return { status: response.status, text: await response.text() };
}
const read = async <T>(path: string) => JSON.parse((await ask('GET', path)).text) as T;

async function openSession(draft: object): Promise<{ id: string; token: string }> {
  return JSON.parse((await ask('POST', '/sessions', draft)).text) as { id: string; token: string };
}

type Context = AnswerOf<'GET /api/v1/sessions/{id}/context'>;
const readContext = (id: string) => read<Context>(`/sessions/${id}/context`);

function sourcesIn({ values }: Context, ...names: string[]): Record<string, unknown> {
  const shown = values.filter(({ name }) => names.includes(name));
  return Object.fromEntries(shown.map(({ name, value, source }) => [name, [value, source]]));
}

const limitsOf = ({ values }: Context, name: string) => values.find((each) => each.name === name)?.limits;

const callOwn = (token: string, tool: string, args: object = {}) =>
  readToolText(callModern(`${url}/mcp/ambit`, token, tool, JSON.stringify(args)));

test('each value has its source: what was given, the parent, the configuration, or a later restriction', async () => {
  const lead = await openSession({ name: 'lead', workspaceId: 'garden', permissions: ['notes:write'] });
  const kid = await openSession({ parentId: lead.id, trustLevel: 'sandboxed', quotas: { totalCalls: 10 } });
  await ask('PATCH', `/sessions/${lead.id}`, { permissions: [], ttlSeconds: 300 });
  await callOwn(lead.token, 'session_create', { name: 'helper' });
  const { id: helper } = await read<{ id: string }>('/sessions/helper');
  expect(await readContext(helper)).toMatchObject({ openedBy: `parent session ${lead.id.slice(0, 8)}` });
  const [ofLead, ofKid] = [await readContext(lead.id), await readContext(kid.id)];
  expect(ofLead.openedBy).toBe('control API');
  expect(sourcesIn(ofLead, 'id', 'name', 'userId', 'agentId', 'trustLevel', 'permissions', 'ttlSeconds')).toEqual({
    id: [lead.id, 'Ambit: random id'],
    name: ['lead', 'control API'],
    userId: ['local', 'Ambit: default user'],
    agentId: [null, 'not given'],
    trustLevel: ['sandboxed', 'configuration: sessions.defaultTrust, lowered by a limit'],
    permissions: [[], 'restricted after the session was opened'],
    ttlSeconds: [300, 'restricted after the session was opened'],
  });
  expect(limitsOf(ofLead, 'trustLevel')).toEqual([
    'Workspace garden allows at most sandboxed (workspaces.garden.trust).',
  ]);
  const parent = `parent session ${lead.id.slice(0, 8)}`;
  expect(sourcesIn(ofKid, 'workspaceId', 'workspacePath', 'parentId', 'trustLevel', 'ttlSeconds', 'endsAt')).toEqual({
    workspaceId: ['garden', parent],
    workspacePath: [join(folder, 'garden'), 'configuration: workspaces.garden.path'],
    parentId: [lead.id, 'control API'],
    trustLevel: ['sandboxed', 'control API'],
    ttlSeconds: [300, 'restricted after the session was opened'],
    endsAt: [expect.any(String), parent],
  });
  expect(sourcesIn(ofKid, 'quotas.totalCalls', 'quotas.callsPerMinute')).toEqual({
    'quotas.totalCalls': [10, 'control API'],
    'quotas.callsPerMinute': [6000, 'configuration: quotas.session.callsPerMinute'],
  });
  expect(limitsOf(ofKid, 'quotas.callsPerMinute')).toEqual([
    'All sessions of the user together: at most 900 (quotas.user.callsPerMinute).',
  ]);
});

test('servers, permissions and restricted tools come with the reason, and without any value of an environment or header', async () => {
  const { id } = await openSession({ trustLevel: 'sandboxed', permissions: ['notes:write', 'other'] });
  const { text } = await ask('GET', `/sessions/${id}/context`);
  expect(text).not.toContain('hush');
  const { servers, permissions, tools } = JSON.parse(text) as Context;
  expect(servers).toMatchObject([
    { name: 'notes', available: true },
    {
      name: 'web',
      available: false,
      rule: 'servers.web.trust',
      reason: expect.stringContaining('direct sessions only'),
    },
  ]);
  const restrict = `ambit session restrict ${id}`;
  expect(permissions).toEqual([
    {
      permission: 'notes:write',
      held: true,
      usedBy: ['notes__add'],
      change: `"${restrict} --permission other" takes it away for good.`,
    },
    { permission: 'other', held: true, usedBy: [], change: expect.stringContaining('--permission notes:write') },
    {
      permission: 'notes:admin',
      held: false,
      usedBy: ['notes__drop*'],
      change: 'Open a new session with "ambit session create --permission notes:admin".',
    },
  ]);
  expect(tools).toEqual([{ server: 'notes', allow: ['*'], deny: ['purge'], rules: ['no-weeds'] }]);
  const inShed = await openSession({ workspaceId: 'shed' });
  const closed = await readContext(inShed.id);
  expect(limitsOf(closed, 'servers')).toEqual([
    'Workspace shed allows only: none (workspaces.*.capabilities.servers).',
  ]);
});

test('a session of an API key shows the key, its limits, and that only another key has more', async () => {
  await ask('POST', '/users', { name: 'ada' });
  const limits = { trustLevel: 'sandboxed', workspaces: ['garden'], scopes: ['notes:write'] };
  const key = JSON.parse((await ask('POST', '/keys', { userId: 'ada', ...limits })).text) as {
    id: string;
    key: string;
  };
  await callOwn(key.key, 'session_info');
  const { sessions } = await read<AnswerOf<'GET /api/v1/sessions'>>('/sessions?user=ada');
  const { id } = sessions[0] as { id: string };
  const context = await readContext(id);
  const name = `API key ${key.id.slice(0, 8)}`;
  expect(context.openedBy).toBe(name);
  expect(sourcesIn(context, 'userId', 'permissions', 'name', 'workspaceId')).toEqual({
    userId: ['ada', name],
    permissions: [['notes:write'], name],
    name: [expect.stringMatching(/^default:/), 'Ambit: name for sessions of this credential'],
    workspaceId: ['garden', `client with the ${name}`],
  });
  expect(limitsOf(context, 'trustLevel')).toContain(`The ${name} allows at most sandboxed (key.trustLevel).`);
  expect(context.permissions.find(({ held }) => !held)?.change).toMatch(
    /^Create another key with "ambit key create --user ada --scope notes:admin"/,
  );
});

test('a record from before sources were kept loads, and says so', async () => {
  const { origin: _, ...session } = createNewSession({ workspaceId: null, parentId: null, keyId: null });
  const store = openMemoryStore();
  const { outcome } = await store.create(session as NewSession);
  expect(outcome).toBe('created');
  const { config } = await loadConfig({ text: '{"version":1}', file: join(folder, 'old.yaml') });
  const data = { configFile: join(folder, 'old.yaml'), dataDir: join(folder, 'old') };
  const old = await openGateway({ config, ...data, store, log: { info() {}, warn() {} } });
  try {
    await old.restrictSession(session.id, { permissions: [] });
    const record = await old.sessions.record(session.id);
    const context = await old.inspector.describeContext(record as SessionRecord, await old.openAccess());
    expect(context.openedBy).toBe('not recorded');
    expect(sourcesIn(context as Context, 'permissions')).toEqual({ permissions: [[], 'not recorded'] });
  } finally {
    await old.close();
  }
});

test('G1: the policies are shown with each delivery, and whether it is still current', async () => {
  const { id, token } = await openSession({ userId: 'ann' });
  type Policies = AnswerOf<'GET /api/v1/sessions/{id}/policies'>;
  const readPolicies = () => read<Policies>(`/sessions/${id}/policies`);
  expect(await readPolicies()).toMatchObject({
    block: expect.stringContaining('Be kind.'),
    carrier: 'first-result',
    policies: [{ name: 'tone', outcome: 'given', by: null }],
    deliveries: [],
  });
  await callOwn(token, 'session_info');
  const first = { to: 'client-0', era: 'modern', kind: 'block' };
  await vi.waitFor(async () => {
    expect((await readPolicies()).deliveries).toMatchObject([{ ...first, isCurrent: true }]);
  }, patience);
  await ask('POST', '/policies', { scope: 'user:ann', name: 'length', mode: 'append', text: 'Be brief.' });
  expect((await readPolicies()).deliveries).toMatchObject([{ ...first, isCurrent: false }]);
  await callOwn(token, 'session_info');
  await vi.waitFor(async () => {
    const { deliveries } = await readPolicies();
    expect(deliveries).toMatchObject([
      { kind: 'notice', isCurrent: true },
      { ...first, isCurrent: false },
    ]);
  }, patience);
});

test('state is listed without values, in pages, first that of the session and then that of its workspace', async () => {
  const { id, token } = await openSession({ workspaceId: 'garden', userId: 'bob' });
  for (const key of ['b', 'a']) await callOwn(token, 'session_state_set', { key, value: 'hush' });
  for (const key of ['x', 'y']) await callOwn(token, 'session_state_set', { key, value: 1, scope: 'workspace' });
  const seen: string[] = [];
  for (let after: string | null = ''; after !== null; ) {
    const { text } = await ask('GET', `/sessions/${id}/state?limit=1${after && `&after=${encodeURIComponent(after)}`}`);
    expect(text).not.toContain('hush');
    const page = JSON.parse(text) as AnswerOf<'GET /api/v1/sessions/{id}/state'>;
    seen.push(...page.keys.map(({ scope, key }) => `${scope} ${key}`));
    after = page.next;
  }
  expect(seen).toEqual(['session a', 'session b', 'workspace x', 'workspace y']);
  expect((await ask('GET', `/sessions/${id}/state?after=b`)).status).toBe(400);
});

test('a message of the operator ends a waiting call, is in the journal without its text, and stays unread', async () => {
  const { id, token } = await openSession({ name: 'worker' });
  // The first result of a client begins with the policies.
  await callOwn(token, 'session_info');
  const waiting = callOwn(token, 'session_inbox', { waitSeconds: 50 });
  const { status, text } = await ask('POST', `/sessions/${id}/messages`, { text: 'Stop the hush work.' });
  expect(status).toBe(201);
  const { messageId } = JSON.parse(text) as { messageId: string };
  expect(await waiting).toContain('were written by the operator');
  const inbox = await read<AnswerOf<'GET /api/v1/sessions/{id}/messages'>>(`/sessions/${id}/messages`);
  const from = { sessionId: null, name: 'operator', agentId: null, trustLevel: null };
  expect(inbox).toMatchObject({ messages: [{ id: messageId, from, text: 'Stop the hush work.' }], next: null });
  await vi.waitFor(async () => {
    const { entries } = await read<AnswerOf<'GET /api/v1/journal'>>('/journal?kind=session&words=message-sent');
    expect(entries).toMatchObject([
      { event: 'message-sent', by: 'admin-token', toSessionId: id, messageId, bytes: 19 },
    ]);
    expect(entries[0]).not.toHaveProperty('sessionId');
  }, patience);
  expect((await ask('POST', `/sessions/${id}/messages`, { text: '' })).status).toBe(400);
  expect((await ask('POST', `/sessions/${id}/messages`, { text: 'x', from: id })).status).toBe(400);
});

test('a session that has ended is not found, and the answer says why and where its events are', async () => {
  const { id } = await openSession({});
  await ask('DELETE', `/sessions/${id}`);
  for (const part of ['context', 'policies', 'state', 'messages']) {
    const { status, text } = await ask('GET', `/sessions/${id}/${part}`);
    expect([status, text]).toEqual([404, expect.stringContaining('The session has ended (ended).')]);
    expect(text).toContain(`ambit audit search --session ${id}`);
  }
  expect((await ask('POST', `/sessions/${id}/messages`, { text: 'x' })).status).toBe(404);
});
