import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isStreamAddress } from '../../../src/entrances/control/routes.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { counts } from '../../proof.ts';
import { checkAnswer } from './check-answer.ts';
import { listOperations, type OpenApi, type Operation, type SentRequest, type Vocabulary } from './random-requests.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-fuzz-'));
const dataDir = join(folder, 'data');
const failures: unknown[] = [];
let gateway: EmbeddedGateway;
let url: string;
let operations: readonly Operation[];
const tokens: Record<'admin' | 'viewer' | 'session' | 'key', string> = { admin: '', viewer: '', session: '', key: '' };

beforeAll(async () => {
  mkdirSync(join(folder, 'garden'));
  const config = {
    version: 1,
    servers: { notes: { command: process.execPath, args: ['-e', 'process.exit(1)'] } },
    workspaces: { garden: { path: join(folder, 'garden'), isolation: 'copy' } },
    rules: [{ id: 'no-weeds', deny: 'notes__*', when: "args.plant == 'weed'" }],
    governance: { users: [{ name: 'ada' }], policies: [{ name: 'tone', scope: 'org', text: 'Be kind.' }] },
  };
  const configFile = join(folder, 'ambit.yaml');
  writeFileSync(configFile, JSON.stringify(config), { mode: 0o600 });
  const warn = (event: string, fields?: object) => {
    if (event === 'unexpected failure') failures.push(fields);
  };
  gateway = await createGateway({ dataDir, config: configFile, log: { info() {}, warn } });
  url = (await gateway.listen({ port: 0 })).url;
  tokens.admin = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  const session = await gateway.createSession({ name: 'task', userId: 'ada', workspaceId: 'garden' });
  const key = await ask<{ id: string; key: string }>('/keys', { userId: 'ada', trustLevel: 'direct' });
  const { url: link } = await ask<{ url: string }>('/consoles/links', { role: 'viewer' });
  const { token } = await ask<{ token: string }>('/consoles', { code: new URL(link).hash.split('=').at(-1) }, '');
  Object.assign(tokens, { session: session.token, key: key.key, viewer: token });
  const api = await (await fetch(`${url}/api/v1/openapi.json`, { headers: authorize(tokens.admin) })).json();
  operations = listOperations(api as OpenApi, listWords(session.id, key.id));
});
afterAll(async () => {
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The names of what exists, and some values for members that take only certain texts. */
function listWords(sessionId: string, keyId: string): Vocabulary {
  const users = ['ada', 'one'];
  const servers = ['notes'];
  const workspaces = ['garden'];
  const sessions = [sessionId, 'task', sessionId.slice(0, 8)];
  return {
    ...{ users, userId: users, user: users, servers, server: servers },
    ...{ workspaces, workspace: workspaces, workspaceId: workspaces },
    ...{ sessions, session: sessions, parent: sessions, parentId: sessions },
    ...{ keys: [keyId], consoles: ['current'], scope: ['org', 'user:ada'], trustLevel: ['direct', 'sandboxed'] },
    ...{ name: ['one', 'two', 'tone'], teams: ['web'], permissions: ['notes:read'], id: ['12345678', 'abcdefgh-1'] },
    ...{
      tool: ['notes__add', 'session_info'],
      args: ['{}', '{"plant":"weed"}'],
      text: ['Be brief.', '{"mcpServers":{"a":{"command":"x"}}}'],
    },
    ...{ scopes: ['*'], include: ['usage', 'activity,usage'], confirm: ['notes'], url: ['http://127.0.0.1:9/mcp'] },
    ...{ command: ['a-command-that-is-nowhere'], header: ['x-key'], value: ['secret'] },
  };
}

function authorize(token: string): Record<string, string> {
  return token === '' ? {} : { authorization: `Bearer ${token}` };
}

async function ask<T>(path: string, body: object, token = tokens.admin): Promise<T> {
  const headers = { ...authorize(token), 'content-type': 'application/json' };
  const answer = await fetch(`${url}/api/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  expect(answer.ok).toBe(true);
  return (await answer.json()) as T;
}

async function send({ method, path, body }: SentRequest, token: string) {
  const headers = { ...authorize(token), 'content-type': 'application/json' };
  const response = await fetch(url + path, { method, headers, ...(body === undefined ? {} : { body }) });
  return { status: response.status, body: JSON.parse(await response.text()) as { readonly code?: string } };
}

test('the OpenAPI document names every operation', () => {
  expect(operations.length).toBeGreaterThan(60);
});

test('no request of an administrator makes the control API fail', async () => {
  for (const { name, requests } of operations) {
    const check = async (request: SentRequest) => {
      if (isStreamAddress(request.path)) return;
      const { status, body } = await send(request, tokens.admin);
      checkAnswer(request.method, request.path, status, body);
      expect([name, body.code]).not.toEqual([name, 'INTERNAL']);
      expect([name, failures]).toEqual([name, []]);
    };
    await fc.assert(fc.asyncProperty(requests, check), { numRuns: counts(6, 1000) });
  }
});

test.each(['', 'wrong', 'session', 'key'] as const)('no request succeeds with the credential "%s"', async (which) => {
  const token = which === '' || which === 'wrong' ? which : tokens[which];
  for (const { name, fitting } of operations) {
    for (const request of fc.sample(fitting, counts(1, 100))) {
      const { status } = await send(request, token);
      expect([name, status]).toEqual([name, expect.toBeOneOf([400, 401, 429])]);
    }
  }
});

test('a viewer changes nothing', async () => {
  const isOwn = (name: string) => name === 'POST /api/v1/consoles';
  for (const { name, fitting, role } of operations.filter((each) => each.role === 'admin' && !isOwn(each.name))) {
    for (const request of fc.sample(fitting, counts(1, 100))) {
      expect([name, role, (await send(request, tokens.viewer)).status]).toEqual([name, role, 403]);
    }
  }
});
