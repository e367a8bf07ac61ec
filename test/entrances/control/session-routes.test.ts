import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { renderSession } from '../../../src/cli/commands/session.ts';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { Config } from '../../../src/config/schema/schema.ts';
import { handleControlRequest } from '../../../src/entrances/control/handle-request.ts';
import { localCaller } from '../../../src/entrances/control/route.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import type { SessionServers } from '../../../src/index.ts';
import type { SandboxState } from '../../../src/sandbox/runners.ts';
import type { SessionView } from '../../../src/sessions/session.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { checkAnswer } from './check-answer.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-admin-'));
const configFile = join(folder, 'ambit.yaml');
let gateway: Gateway;

beforeAll(async () => {
  mkdirSync(join(folder, 'garden'));
  const text = `version: 1
servers: { a: { command: x }, b: { command: x } }
workspaces: { garden: { path: garden, isolation: copy } }`;
  const { config } = await loadConfig({ text, file: configFile });
  gateway = await openGateway({ config, configFile, dataDir: join(folder, 'data'), log: { info() {}, warn() {} } });
});

afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

const base = '/api/v1/sessions';
async function ask(
  method: string,
  path: string,
  body?: unknown,
  address?: string,
): Promise<{ status: number; body: unknown }> {
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
  const request = { method, path: base + path, body: bytes };
  const { status, body: answer } = await handleControlRequest(gateway, request, localCaller, address);
  checkAnswer(method, base + path, status, answer);
  return { status, body: answer };
}
const openSession = async (draft: Record<string, unknown> = {}) =>
  (await ask('POST', '', { servers: ['a', 'b'], ttlSeconds: 60, ...draft })).body as { id: string; token: string };

test('W3: the name of a workspace in a request about a folder never becomes a path', async () => {
  const { id } = await openSession({ workspaceId: 'garden' });
  expect((await ask('GET', `/${id}/diff`)).status).toBe(200);
  for (const workspace of ['../../../outside', 'nowhere', '\0']) {
    const merge = await ask('POST', `/${id}/merge`, { workspace });
    const diff = await ask('GET', `/${id}/diff?workspace=${encodeURIComponent(workspace)}`);
    const refused = { status: 400, body: { code: 'WORKSPACE_REQUIRED' } };
    expect([merge, diff]).toMatchObject([refused, refused]);
  }
  expect(readdirSync(folder).filter((name) => name.includes('outside'))).toEqual([]);
  await ask('DELETE', `/${id}`);
});

test.each([
  [{ trustLevel: 'direct' }, 403],
  [{ trustLevel: 'root' }, 400],
  [{ trustLevel: ['sandboxed'] }, 400],
  [{ ttlSeconds: 61 }, 400],
  [{ ttlSeconds: '5' }, 400],
  [{ ttlSeconds: null }, 400],
  [{ servers: 'a' }, 400],
  [{ servers: [1] }, 400],
  [{ servers: null }, 400],
  [{ servers: ['a', 'c'] }, 400],
  [{ servers: { length: 0 } }, 400],
  [{ userId: 'root' }, 400],
  [{ workspaceId: 'w' }, 400],
  [{ permissions: ['admin'] }, 400],
  [{ endsAt: 1e15 }, 400],
  [{ tokenDigests: [] }, 400],
  [{ servers: ['a'], __proto__x: 1 }, 400],
  [[], 400],
  ['x', 400],
  [{}, 400],
])('P14: PATCH with %j is refused whole', async (body, status) => {
  const { id } = await openSession();
  expect((await ask('PATCH', `/${id}`, body)).status).toBe(status);
  expect((await ask('GET', `/${id}`)).body).toMatchObject({
    trustLevel: 'sandboxed',
    ttlSeconds: 60,
    servers: ['a', 'b'],
  });
});

test('a sandboxed session shows its sandbox and who keeps it within its limits; a direct one has none', async () => {
  const requestSession = async (draft: Record<string, unknown>) => {
    const { body } = await ask('GET', `/${(await openSession(draft)).id}`);
    return body as SessionView & { sandbox: SandboxState | null };
  };
  expect((await requestSession({ trustLevel: 'direct' })).sandbox).toBeNull();
  const view = await requestSession({});
  if (hasBwrap()) {
    const limits = { fileMb: 'rlimit', wallSeconds: 'timer' };
    expect(view.sandbox).toMatchObject({ runner: 'bwrap', refusal: null, limits });
    expect(renderSession(view)).toMatch(/^sandbox +bwrap$/m);
    expect(renderSession(view)).toMatch(/^ +fileMb, openFiles \(rlimit\)$/m);
  } else {
    expect(view.sandbox).toMatchObject({ limits: null, refusal: expect.stringContaining('no sandbox') });
  }
});

test('P14: PATCH narrows, and the token keeps working', async () => {
  const { id, token } = await openSession({ trustLevel: 'trusted' });
  const change = { trustLevel: 'untrusted', ttlSeconds: 5, servers: ['b'] };
  const expected = { id, trustLevel: 'sandboxed', ttlSeconds: 5, servers: ['b'] };
  expect(await ask('PATCH', `/${id}`, change)).toMatchObject({ status: 200, body: expected });
  expect((await gateway.sessions.verifyToken(token)).servers).toEqual(['b']);
  expect((await ask('PATCH', '/nobody', change)).status).toBe(404);
});

test('W2: the operator finds a session by its number, but ends, restricts and extends it only by its exact name', async () => {
  const { id } = await openSession({ name: 'task#049', userId: 'ada' });
  for (const reference of ['049', '%23049', 'TASK%23049']) {
    expect((await ask('GET', `/${reference}`)).body).toMatchObject({ id });
    expect((await ask('GET', `/${reference}/servers`)).status).toBe(200);
    for (const [method, body] of [['DELETE'], ['PATCH', { ttlSeconds: 5 }]] as const) {
      expect(await ask(method, `/${reference}`, body)).toMatchObject({
        status: 404,
        body: { detail: expect.stringContaining('did you mean "task#049"?') },
      });
    }
    expect((await ask('POST', '', { parentId: decodeURIComponent(reference) })).status).toBe(404);
    expect((await ask('POST', `/${reference}/tokens`)).status).toBe(404);
  }
  const other = await openSession({ name: 'bug#049', userId: 'bob' });
  const { status, body } = await ask('GET', '/049');
  expect([status, (body as { detail: string }).detail]).toEqual([
    404,
    `Several live sessions match that: task#049 (${id.slice(0, 8)}, user ada); bug#049 (${other.id.slice(0, 8)}, user bob).`,
  ]);
  for (const each of [id, other.id]) await ask('DELETE', `/${each}`);
});

test('P8: an orchestrator may give a session the id that it uses itself, once', async () => {
  const id = '550e8400-e29b-41d4-a716-446655440000';
  const { token } = await openSession({ id });
  expect((await gateway.sessions.verifyToken(token)).id).toBe(id);
  expect(await ask('POST', '', { id })).toMatchObject({ status: 409, body: { code: 'SESSION_EXISTS' } });
  await ask('DELETE', `/${id}`);
  expect((await ask('POST', '', { id })).status).toBe(409);
});

test.each([
  { servers: ['c'] },
  { servers: 'a' },
  { servers: [null] },
  { permissions: ['X'] },
  { permissions: 'x' },
  { id: 'short' },
  { id: '../etc/passwd' },
  { id: 'UPPER-CASE' },
  { id: 'x'.repeat(65) },
])('POST with %j opens nothing', async (draft) => {
  const before = (await gateway.sessions.list()).sessions.length;
  expect((await ask('POST', '', draft)).status).toBe(400);
  expect((await gateway.sessions.list()).sessions).toHaveLength(before);
});

test('the servers of a session; addresses only from a gateway that has one, and then with a token of their own', async () => {
  const { id, token } = await openSession({ trustLevel: 'direct', servers: ['a'] });
  const { mcpServers, servers } = (await ask('GET', `/${id}/servers`)).body as SessionServers;
  expect(Object.keys(mcpServers)).toEqual(['a']);
  expect(servers).toMatchObject([
    { name: 'a', available: true, env: { AMBIT_TRUST_LEVEL: 'injected' } },
    { name: 'b', available: false, rule: 'session.servers' },
  ]);
  expect(JSON.stringify(servers)).not.toContain(token);
  expect((await ask('POST', `/${id}/servers`, { via: 'gateway' })).status).toBe(503);
  for (const body of [{}, { via: 'elsewhere' }, { via: 'gateway', userId: 'root' }]) {
    expect((await ask('POST', `/${id}/servers`, body, 'http://127.0.0.1:1')).status).toBe(400);
  }
  expect(gateway.sessions.get(id)?.tokenDigests).toHaveLength(1);
  const reached = await ask('POST', `/${id}/servers`, { via: 'gateway' }, 'https://ambit.example/base/');
  expect(reached.status).toBe(201);
  const entry = (reached.body as SessionServers).mcpServers['a'] as { url: string; headers: Record<string, string> };
  expect(entry.url).toBe('https://ambit.example/base/mcp/a');
  expect((reached.body as SessionServers).mcpServers['ambit']).toEqual({
    ...entry,
    url: 'https://ambit.example/base/mcp/ambit',
  });
  const further = entry.headers['Authorization']?.replace('Bearer ', '') ?? '';
  expect(further).not.toBe(token);
  expect((await gateway.sessions.verifyToken(further)).id).toBe(id);
  expect((await ask('GET', '/nobody/servers')).status).toBe(404);
  expect((await ask('DELETE', `/${id}/servers`)).status).toBe(405);
});

test('a token for each run: all belong to the same session, and end with it', async () => {
  const { id, token } = await openSession({ name: 'chat-1' });
  const issue = async (reference: string, body?: unknown) => ask('POST', `/${reference}/tokens`, body);
  const further = await issue('chat-1');
  expect(further).toEqual({ status: 201, body: { token: expect.stringMatching(/^ambs_/) } });
  const tokens = [token, (further.body as { token: string }).token];
  for (const each of tokens) expect((await gateway.sessions.verifyToken(each)).id).toBe(id);
  expect((await issue(id, { ttlSeconds: 5 })).status).toBe(400);
  expect(gateway.sessions.get(id)?.tokenDigests).toHaveLength(2);
  await ask('DELETE', `/${id}`);
  const refused = async (each: string) => gateway.sessions.verifyToken(each);
  for (const each of tokens) await expect(refused(each)).rejects.toMatchObject({ code: 'SESSION_ENDED' });
  for (const gone of [id, 'chat-1', 'nobody']) expect((await issue(gone)).status).toBe(404);
});

test('Ambit’s own address is named only to whom a rule leaves one of its tools', async () => {
  const { id } = await openSession();
  const names = async () => {
    const { body } = await ask('POST', `/${id}/servers`, { via: 'gateway' }, 'http://127.0.0.1:1');
    return Object.keys((body as SessionServers).mcpServers);
  };
  expect(await names()).toEqual(['a', 'b', 'ambit']);
  const before = gateway.config;
  const denied: Config['rules'][number] = { id: 'none', deny: ['session_*'] };
  gateway.reload({ ...before, rules: [denied] });
  expect(await names()).toEqual(['a', 'b']);
  gateway.reload(before);
});
