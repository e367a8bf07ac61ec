import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { computeArgumentsDigest } from '../../../src/context/for-tools/arguments-digest.ts';
import type { AnswerOf } from '../../../src/entrances/control/routes.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { checkAnswer } from './check-answer.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-numbers-'));
const dataDir = join(folder, 'data');
let gateway: EmbeddedGateway;
let url: string;
let headers: Record<string, string>;
const clients: RawClient[] = [];

beforeAll(async () => {
  const script = join(import.meta.dirname, '../../fixtures/reloaded/server.js');
  const server = { command: process.execPath, args: [script], env: { ERA: 'modern' }, era: 'modern' as const };
  gateway = await createGateway({
    dataDir,
    log: { info() {}, warn() {} },
    config: {
      version: 1,
      sessions: { defaultTrust: 'direct' },
      servers: {
        own: server,
        together: { ...server, scope: 'shared', contextAware: true },
        silent: { ...server, context: 'none' },
      },
      rules: [
        { id: 'careful', deny: '*__slow', when: "session.trustLevel == 'direct' && size(session.permissions) == 0" },
        { id: 'no-secret', deny: 'own__*', when: "has(args.secret) && session.userId != 'root'" },
      ],
    },
  });
  url = (await gateway.listen({ port: 0 })).url;
  headers = { authorization: `Bearer ${readFileSync(join(dataDir, 'admin-token'), 'utf8').trim()}` };
});
afterAll(async () => {
  for (const client of clients) await client.close();
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

async function get<Answer>(path: string, status = 200): Promise<Answer> {
  const response = await fetch(url + path, { headers });
  const answer = (await response.json()) as Answer;
  expect([response.status, checkAnswer('GET', path, response.status, answer)]).toEqual([status, expect.anything()]);
  return answer;
}

async function openClient(name: string) {
  const { id } = await gateway.createSession({ name });
  const client = await createRawClient(gateway.connect(id), 'modern');
  clients.push(client);
  return { id, call: (tool: string, args: object) => client.request('tools/call', { name: tool, arguments: args }) };
}

test('processes are listed with what they use, and for a session only those that belong to it alone', async () => {
  const [one, other] = [await openClient('one'), await openClient('other')];
  await Promise.all([one.call('own__mark', {}), other.call('own__mark', {}), one.call('together__mark', {})]);
  const { processes } = await get<AnswerOf<'GET /api/v1/processes'>>('/api/v1/processes');
  expect(processes.map(({ server, sessionId }) => [server, sessionId]).sort()).toEqual(
    [
      ['own', one.id],
      ['own', other.id],
      ['together', null],
    ].sort(),
  );
  const isLinux = process.platform === 'linux';
  for (const each of processes) {
    expect(each).toMatchObject({ runner: 'plain', limits: [], processes: isLinux ? 1 : null });
    expect(each.memoryBytes === null).toBe(!isLinux);
    expect(Date.parse(each.startedAt)).toBeLessThanOrEqual(Date.parse(each.idleSince ?? ''));
  }
  const pids = readFileSync(join(dataDir, 'journal/journal.jsonl'), 'utf8')
    .split('\n')
    .filter((line) => line.includes('"event":"started"'))
    .map((line) => (JSON.parse(line) as { pid: number }).pid);
  expect(processes.map(({ pid }) => pid).sort()).toEqual(pids.sort());

  const ofOne = await get<AnswerOf<'GET /api/v1/processes'>>('/api/v1/processes?session=one');
  expect(ofOne.processes.map(({ sessionId }) => sessionId)).toEqual([one.id]);
  const shared = await get<AnswerOf<'GET /api/v1/processes'>>('/api/v1/processes?server=together');
  expect(shared.processes.map(({ server }) => server)).toEqual(['together']);
  await get('/api/v1/processes?session=nobody', 404);
});

test('the line of a call has the digest of its arguments as in the signed context, the time of the server and the claims', async () => {
  const { id, call } = await openClient('digested');
  const args = { path: 'a.txt', deep: { b: 1, a: [true, 'é'] } };
  const told = (await call('own__told', args)) as { result: { content: { text: string }[] } };
  const { token } = JSON.parse(told.result.content[0]?.text ?? '') as { token: string };
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as {
    tctx: { argsSha256: string };
  };
  await call('silent__mark', args);
  await call('session_info', { session: 'current' });
  await call('own__slow', {});
  await call('own__mark', { secret: 'hunter2' });
  await call('own__slow', { text: 'x'.repeat(70_000) });
  const { calls } = await get<AnswerOf<'GET /api/v1/sessions/{id}/calls'>>(`/api/v1/sessions/${id}/calls`);
  const [long, secret, slow, own, silent, first] = calls;
  expect(first).toMatchObject({ name: 'own__told', outcome: 'ok', argsSha256: claims.tctx.argsSha256 });
  expect(first?.upstreamMs).toBeGreaterThan(0);
  expect(first?.upstreamMs).toBeLessThanOrEqual(first?.ms ?? 0);
  // The server gets no context, but the same arguments.
  expect(silent).toMatchObject({ argsSha256: claims.tctx.argsSha256, upstreamMs: expect.any(Number) });
  expect(own).toMatchObject({ argsSha256: computeArgumentsDigest(Buffer.from('{"session":"current"}')) });
  expect(own).not.toHaveProperty('upstreamMs');
  expect(slow).toMatchObject({
    outcome: 'PERMISSION_DENIED',
    rule: 'careful',
    claims: '{"session.permissions":[],"session.trustLevel":"direct"}',
    argsSha256: computeArgumentsDigest(Buffer.from('{}')),
  });
  // The rule has read an argument too. Its value is recorded nowhere.
  expect(secret).toMatchObject({ rule: 'no-secret', claims: '{"session.userId":"local"}' });
  expect(long).toMatchObject({ rule: 'careful' });
  expect(long).not.toHaveProperty('argsSha256');
  const { entries } = await get<AnswerOf<'GET /api/v1/journal'>>(`/api/v1/journal?session=${id}`);
  expect(JSON.stringify(entries)).not.toContain('hunter2');
  expect(entries.filter((entry) => entry['kind'] !== 'call').some((entry) => 'argsSha256' in entry)).toBe(false);
});

test('lines are found by the name of a session: those of all live and ended sessions with this name', async () => {
  const first = await openClient('shift');
  await first.call('own__mark', {});
  await gateway.endSession(first.id);
  type Lines = AnswerOf<'GET /api/v1/journal'>;
  const find = async (query: string) => {
    const { entries } = await get<Lines>(`/api/v1/journal?kind=session&event=created&${query}`);
    return entries.map((entry) => entry['sessionId']);
  };
  expect(await find('session=shift')).toEqual([first.id]);
  const since = new Date(Date.now() - 60_000).toISOString();
  expect(await find(`session=shift&since=${since}`)).toEqual([first.id]);
  const named = await get<AnswerOf<'GET /api/v1/sessions/ended'>>('/api/v1/sessions/ended?name=shift');
  expect(named.sessions.map(({ id }) => id)).toEqual([first.id]);
  const second = await openClient('shift');
  const { id: third } = await gateway.createSession({ name: 'shift', userId: 'grace' });
  expect((await find('session=shift')).sort()).toEqual([first.id, second.id, third].sort());
  for (const part of [first.id, first.id.slice(0, 12)]) expect(await find(`session=${part}`)).toEqual([first.id]);
  expect(await find('session=shif')).toEqual([]);
});

test('numbers of all sessions and of one, and wrong time ranges', async () => {
  const { id, call } = await openClient('counted');
  await call('own__mark', {});
  await call('own__slow', {});
  type Numbers = AnswerOf<'GET /api/v1/stats'>;
  const since = new Date(Date.now() - 3_600_000).toISOString();
  for (const session of ['counted', id, id.slice(0, 12)]) {
    const one = await get<Numbers>(`/api/v1/stats?since=${since}&session=${session}`);
    expect(one).toMatchObject({
      stepSeconds: 60,
      totals: { calls: 2, errors: 1, refusals: 1, sessionsOpened: 1 },
      refusalsByRule: [{ rule: 'careful', code: 'PERMISSION_DENIED', count: 1 }],
      servers: [{ server: 'own', calls: 2, errors: 1 }],
      processes: { started: 1, failed: 0 },
      complete: true,
    });
    expect(one.tools.map(({ tool, calls, errors }) => [tool, calls, errors]).sort()).toEqual([
      ['mark', 1, 0],
      ['slow', 1, 1],
    ]);
  }
  const all = await get<Numbers>('/api/v1/stats');
  expect(all.totals.calls).toBeGreaterThanOrEqual(2);
  expect(Date.parse(all.until) - Date.parse(all.since)).toBeGreaterThanOrEqual(86_400_000);
  await get(`/api/v1/stats?since=${new Date(Date.now() + 3_600_000).toISOString()}`, 400);
  await get('/api/v1/stats?since=2020-01-01T00:00:00Z', 400);
  await get('/api/v1/stats?since=yesterday', 400);
});
