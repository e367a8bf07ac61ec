import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { event } from '../../../src/entrances/control/answer-schemas.ts';
import {
  type AnswerOf,
  describeApi,
  type RequestOf,
  type RouteName,
  routes,
} from '../../../src/entrances/control/routes.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { callModern, readToolText } from '../../journeys/raw-mcp-client.ts';
import { authorizationServer, browse } from '../../upstreams/auth/authorization-server.ts';
import { guardedUpstream } from '../../upstreams/auth/guarded-upstream.ts';
import { readEvents } from '../http/event-reader.ts';
import { checkAnswer } from './check-answer.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-answers-'));
const [dataDir, workspace] = [join(folder, 'data'), join(folder, 'garden')];
const closing: { close(): Promise<unknown> }[] = [];
let gateway: EmbeddedGateway;
let url: string;
let headers: Record<string, string>;

beforeAll(async () => {
  mkdirSync(workspace);
  writeFileSync(join(workspace, 'plan.txt'), 'beans\n');
  const provider = await authorizationServer();
  const notes = await guardedUpstream(provider.issuer, provider.jwksUri);
  closing.push(provider, notes);
  const config = {
    version: 1,
    servers: {
      notes: { url: notes.url, era: 'modern', trust: ['sandboxed'] },
      local: { command: 'x', trust: ['direct'] },
    },
    workspaces: { garden: { path: workspace, isolation: 'copy' } },
    rules: [{ id: 'no-weeds', deny: 'notes__*', when: "args.plant == 'weed'" }],
    governance: {
      organisation: 'acme',
      users: [{ name: 'root' }],
      policies: [{ name: 'tone', scope: 'org', mode: 'prepend', text: 'Be kind.' }],
      objectives: [{ scope: 'org', text: 'Grow.' }],
    },
  };
  const configFile = join(folder, 'ambit.yaml');
  writeFileSync(configFile, JSON.stringify(config), { mode: 0o600 });
  gateway = await createGateway({ dataDir, log: { info() {}, warn() {} }, config: configFile });
  closing.push(gateway);
  url = (await gateway.listen({ port: 0 })).url;
  const token = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
});
afterAll(async () => {
  for (const each of closing.reverse()) await each.close();
  rmSync(folder, { recursive: true, force: true });
});

const answered = new Set<string | undefined>();

async function ask<Name extends RouteName>(
  name: Name,
  { id = '', query, body }: RequestOf<Name> = {},
): Promise<AnswerOf<Name>> {
  const [method = '', template = ''] = name.split(' ');
  const search = new URLSearchParams(query as Record<string, string> | undefined);
  const path = `${template.replace('{id}', encodeURIComponent(id))}?${search}`;
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(url + path, { method, headers, ...sent });
  const answer = (await response.json()) as AnswerOf<Name>;
  expect(checkAnswer(method, path, response.status, answer)).toBe(name);
  if (response.ok) answered.add(name);
  return answer;
}

test('a choice that may be null lists null in the OpenAPI document', async () => {
  const choices: { readonly type?: unknown; readonly enum: readonly unknown[] }[] = [];
  JSON.stringify(await describeApi(), (_, value) => {
    if (Array.isArray(value?.enum)) choices.push(value);
    return value;
  });
  const nullable = choices.filter(({ type }) => Array.isArray(type) && type.includes('null'));
  expect(nullable).not.toEqual([]);
  expect(nullable.filter((each) => !each.enum.includes(null))).toEqual([]);
});

test('every address answers as its row says', async () => {
  const heard = await readEvents(`${url}/api/v1/events`, headers);
  const opened = await ask('POST /api/v1/sessions', {
    body: { name: 'task#1', workspaceId: 'garden', agentId: 'a', permissions: ['x:y'], metadata: { deep: [null, 1] } },
  });
  const { id } = opened;
  await ask('POST /api/v1/sessions', { body: { parentId: 'task#1', trustLevel: 'sandbox', servers: ['local'] } });
  await ask('GET /api/v1/sessions', { query: { limit: '1', include: 'activity,usage' } });
  await ask('GET /api/v1/sessions/ended', { query: { limit: 1 } });
  const { sandbox } = await ask('GET /api/v1/sessions/{id}', { id });
  expect(sandbox).not.toBeNull();
  await ask('PATCH /api/v1/sessions/{id}', { id, body: { ttlSeconds: 600 } });
  await ask('GET /api/v1/sessions/{id}/servers', { id });
  await ask('POST /api/v1/sessions/{id}/servers', { id, body: { via: 'gateway' } });
  await ask('POST /api/v1/sessions/{id}/tokens', { id });
  await ask('GET /api/v1/sessions/{id}/context', { id });
  await ask('GET /api/v1/sessions/{id}/policies', { id });
  await ask('GET /api/v1/sessions/{id}/state', { id, query: { limit: '5' } });
  const { messageId } = await ask('POST /api/v1/sessions/{id}/messages', { id, body: { text: 'Look at the beans.' } });
  const { messages } = await ask('GET /api/v1/sessions/{id}/messages', { id });
  expect(messages).toMatchObject([{ id: messageId, from: { sessionId: null, name: 'operator' } }]);
  const explained = { tool: 'notes__add', args: '{"plant":"weed"}' };
  const { rules } = await ask('POST /api/v1/sessions/{id}/explain', { id, body: explained });
  expect(rules).toHaveLength(1);
  await readToolText(callModern(`${url}/mcp/ambit`, opened.token, 'session_info', '{"session":"current"}'));
  const { calls } = await ask('GET /api/v1/sessions/{id}/calls', { id, query: { limit: 1 } });
  expect(calls).toHaveLength(1);
  const { entries } = await ask('GET /api/v1/journal', { query: { session: 'task#1', kind: 'call', words: 'ok' } });
  expect(entries).toMatchObject([{ kind: 'call', sessionId: id, name: 'session_info' }]);
  const { sessions: live, folders: own } = await ask('GET /api/v1/workspaces/{id}', { id: 'garden' });
  expect([live, own.length]).toEqual([2, 2]);
  await ask('GET /api/v1/workspaces');
  await folders(id);

  await ask('POST /api/v1/users', { body: { name: 'ada', teams: ['t'] } });
  await ask('GET /api/v1/users');
  await ask('GET /api/v1/users/{id}', { id: 'ada' });
  await ask('PATCH /api/v1/users/{id}', { id: 'ada', body: { teams: ['u'] } });
  await ask('GET /api/v1/teams');
  const key = await ask('POST /api/v1/keys', { body: { userId: 'ada', trustLevel: 'direct', workspaces: ['garden'] } });
  await ask('POST /api/v1/keys/{id}/rotate', { id: key.id, body: { overlapSeconds: 60 } });
  await ask('GET /api/v1/keys', { query: { user: 'ada' } });
  await ask('GET /api/v1/keys/{id}', { id: key.id });
  await ask('DELETE /api/v1/keys/{id}', { id: key.id });

  const credential = { userId: 'ada', server: 'notes', header: 'x-key' };
  await ask('POST /api/v1/credentials', { body: { ...credential, value: 'v' } });
  await ask('GET /api/v1/credentials');
  await ask('DELETE /api/v1/credentials', { body: credential });
  const login = { userId: 'ada', server: 'notes' };
  const { authorizationUrl } = await ask('POST /api/v1/logins', { body: { ...login, port: 9 } });
  const callback = await browse(authorizationUrl, (back) => back.startsWith('http://127.0.0.1:9/callback'));
  await ask('POST /api/v1/logins/complete', { body: { ...login, callback } });
  await ask('GET /api/v1/logins');
  await ask('DELETE /api/v1/logins', { body: login });

  const policy = { scope: 'user:ada', name: 'tone' };
  await ask('POST /api/v1/policies', { body: { ...policy, mode: 'append', text: 'Be brief.', order: 1 } });
  await ask('GET /api/v1/policies');
  const objective = await ask('POST /api/v1/objectives', { body: { scope: 'workspace:garden', text: 'Weed.' } });
  await ask('GET /api/v1/objectives');
  const { policies } = await ask('GET /api/v1/policies/effective', { query: { user: 'ada', workspace: 'garden' } });
  expect(policies.map(({ outcome }) => outcome)).toContain('replaced');
  await ask('DELETE /api/v1/policies', { body: policy });
  await ask('DELETE /api/v1/objectives', { body: { id: objective.id } });
  await ask('DELETE /api/v1/users/{id}', { id: 'ada' });
  await ask('GET /api/v1/openapi.json');
  const { gateway: running, servers } = await ask('GET /api/v1/status');
  expect([running?.url, servers.total]).toEqual([url, 2]);
  await ask('GET /api/v1/servers');
  await ask('GET /api/v1/servers/{id}', { id: 'local' });
  const ruled = await ask('GET /api/v1/rules');
  expect([ruled.rules[0]?.id, ruled.servers.length]).toEqual(['no-weeds', 2]);
  const { applied, reloaded } = await ask('POST /api/v1/servers', { body: { name: 'time', command: 'node' } });
  expect([applied, reloaded]).toEqual([true, true]);
  await ask('POST /api/v1/servers/import', {
    body: { text: '{"mcpServers":{"Clock":{"command":"x"}}}', dryRun: true },
  });
  const { definitionHash, pinsHash } = await ask('POST /api/v1/servers/{id}/review', { id: 'time' });
  await ask('POST /api/v1/servers/{id}/approve', { id: 'time', body: { definitionHash, pinsHash } });
  await ask('DELETE /api/v1/servers/{id}', { id: 'time', query: { dryRun: 'true' } });
  const checked = await ask('POST /api/v1/servers/{id}/check', { id: 'local' });
  expect(checked.error?.code).toBe('UPSTREAM_FAILED');
  await ask('GET /api/v1/processes');
  const { totals } = await ask('GET /api/v1/stats');
  expect(totals).toMatchObject({ calls: 1, sessionsOpened: 2 });
  await ask('GET /api/v1/servers/{id}/logs', { id: 'local', query: { lines: 5 } });

  await ask('GET /api/v1/whoami');
  await ask('POST /api/v1/consoles/links', { body: { role: 'viewer' } });
  const signedIn = await ask('POST /api/v1/consoles', { body: {} });
  await ask('GET /api/v1/consoles');
  await ask('DELETE /api/v1/consoles/{id}', { id: signedIn.id });

  expect([...answered].sort()).toEqual(Object.keys(routes).sort());
  await heard.hears(({ event: type }) => type === 'ended');
  for (const { data } of heard.heard) expect(event.parse(data)).toEqual(data);
  heard.close();
});

/** What a session did in its own folder: shown, in conflict, merged; then the session ends and the folder goes. */
async function folders(id: string): Promise<void> {
  const { path } = await ask('GET /api/v1/sessions/{id}/diff', { id });
  writeFileSync(join(path, 'plan.txt'), 'peas\n');
  writeFileSync(join(workspace, 'plan.txt'), 'corn\n');
  const { files, changesHash } = await ask('GET /api/v1/sessions/{id}/diff', { id, query: { workspace: 'garden' } });
  expect(files).toHaveLength(1);
  writeFileSync(join(path, 'unseen.txt'), 'weeds\n');
  const stale = await ask('POST /api/v1/sessions/{id}/merge', { id, body: { changesHash, prefer: 'session' } });
  expect(stale).toMatchObject({ status: 409, code: 'FILE_CHANGED' });
  expect(existsSync(join(workspace, 'unseen.txt'))).toBe(false);
  rmSync(join(path, 'unseen.txt'));
  const refused = await ask('POST /api/v1/sessions/{id}/merge', { id, body: {} });
  expect(refused).toMatchObject({ status: 409, code: 'WORKSPACE_CONFLICT', files: [{ outcome: 'conflict' }] });
  await ask('POST /api/v1/sessions/{id}/merge', { id, body: { dryRun: true, prefer: 'workspace' } });
  await ask('DELETE /api/v1/sessions/{id}', { id });
  await ask('DELETE /api/v1/sessions/{id}/folder', { id });
}
