import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeApi, eventsPath, routes, stopPath } from '../../../src/entrances/control/routes.ts';
import { openAdminToken } from '../../../src/entrances/http/admit-caller.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { callModern, readToolText } from '../../journeys/raw-mcp-client.ts';
import { readEvents } from '../http/event-reader.ts';
import { checkAnswer } from './check-answer.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-control-'));
const dataDir = join(folder, 'data');
let gateway: EmbeddedGateway;
let url: string;
let token: string;
const lines: string[] = [];

beforeAll(async () => {
  const note = (event: string, fields: object = {}) => void lines.push(`${event} ${JSON.stringify(fields)}`);
  const log = { info: note, warn: note };
  gateway = await createGateway({ config: { version: 1 }, dataDir, log });
  url = (await gateway.listen({ port: 0 })).url;
  token = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

interface ApiAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly body: Record<string, unknown>;
}

async function ask(
  method: string,
  path: string,
  { body, headers = {} }: { readonly body?: unknown; readonly headers?: Record<string, string> } = {},
): Promise<ApiAnswer> {
  const own = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers };
  const given = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== ''));
  const told = await new Promise<ApiAnswer>((resolve, reject) => {
    const sent = request(url + path, { method, headers: given, agent: false }, async (response) => {
      const text = (await response.toArray()).join('');
      const parsed = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
      resolve({ status: response.statusCode ?? 0, type: response.headers['content-type'], body: parsed });
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body));
  });
  // The guards in front of all addresses answer in their own form.
  if (told.status !== 403) checkAnswer(method, path, told.status, told.body);
  return told;
}

describe('the control API over HTTP', () => {
  test('opens, shows, narrows and ends sessions', async () => {
    const opened = await ask('POST', '/api/v1/sessions', { body: { name: 'task#1', ttlSeconds: 60 } });
    expect(opened).toMatchObject({ status: 201, body: { name: 'task#1', token: expect.stringMatching(/^ambs_/) } });
    const child = await ask('POST', '/api/v1/sessions', { body: { parentId: opened.body['id'] } });
    expect(child.body).toMatchObject({ parentId: opened.body['id'] });
    const narrowed = await ask('PATCH', '/api/v1/sessions/task%231', { body: { ttlSeconds: 30 } });
    expect(narrowed).toMatchObject({ status: 200, body: { ttlSeconds: 30 } });
    expect((await ask('GET', `/api/v1/sessions/${opened.body['id']}`)).body).toMatchObject({ ttlSeconds: 30 });
    expect(await ask('DELETE', '/api/v1/sessions/task%231')).toMatchObject({ status: 200, body: { ended: true } });
    expect(await ask('GET', `/api/v1/sessions/${child.body['id']}`)).toMatchObject({
      status: 404,
      type: 'application/problem+json',
      body: { code: 'SESSION_NOT_FOUND', detail: expect.any(String), hint: expect.any(String) },
    });
  });

  test('is closed to whoever does not carry the admin token, whatever they ask', async () => {
    const { token: ofSession } = await gateway.createSession();
    const wrong = [
      '',
      'Bearer ',
      `Bearer ${ofSession}`,
      `Bearer ${token}x`,
      `Bearer ${token.slice(0, -1)}`,
      `Basic ${Buffer.from(`admin:${token}`).toString('base64')}`,
      token,
    ];
    for (const authorization of wrong) {
      for (const [method, path] of [
        ['GET', '/api/v1/sessions'],
        ['POST', '/api/v1/sessions'],
        ['GET', '/api/v1/events'],
        ['GET', '/api/v1/openapi.json'],
        ['GET', '/api/nothing'],
        ['GET', `/api/v1/sessions?access_token=${token}`],
      ] as const) {
        const refused = await ask(method, path, { headers: { authorization } });
        expect(refused).toMatchObject({ status: 401, type: 'application/problem+json' });
        expect(refused.body).toMatchObject({ code: 'UNAUTHENTICATED', hint: expect.stringContaining('admin-token') });
        expect(JSON.stringify(refused)).not.toContain(token);
      }
    }
  });

  test('is closed to pages and names that we do not expect, even with the token', async () => {
    for (const headers of [{ host: 'evil.example' }, { origin: 'https://evil.example' }, { origin: 'null' }]) {
      expect((await ask('GET', '/api/v1/sessions', { headers })).status).toBe(403);
    }
  });

  test('does not end the gateway: only the control socket can', async () => {
    const refused = { status: 403, body: { code: 'PERMISSION_DENIED' } };
    expect(await ask('POST', '/api/v1/stop', { body: {} })).toMatchObject(refused);
    expect(await ask('GET', '/api/v1/stop')).toMatchObject({ status: 404 });
    expect(await ask('GET', '/api/v1/status')).toMatchObject({ status: 200 });
  });

  test('refuses what it cannot read', async () => {
    expect(await ask('POST', '/api/v1/sessions', { body: '{' })).toMatchObject({ status: 400 });
    expect(await ask('POST', '/api/v1/sessions', { body: { userId: 'anonymous' } })).toMatchObject({ status: 400 });
    expect(await ask('POST', '/api/v1/sessions', { body: ' '.repeat(300_000) })).toMatchObject({ status: 413 });
    const plain = { headers: { 'content-type': 'text/plain' }, body: '{}' };
    expect(await ask('POST', '/api/v1/sessions', plain)).toMatchObject({ status: 415 });
    const sized = { ...plain, headers: { ...plain.headers, 'content-length': '2' } };
    expect(await ask('DELETE', '/api/v1/credentials', sized)).toMatchObject({ status: 415 });
    const chunked = { ...plain, headers: { ...plain.headers, 'transfer-encoding': 'chunked' } };
    expect(await ask('DELETE', '/api/v1/credentials', chunked)).toMatchObject({ status: 415 });
    const words = (count: number) => Array.from({ length: count }, (_, i) => `w${i}`).join('+');
    expect(await ask('GET', `/api/v1/journal?words=${words(32)}+w1`)).toMatchObject({ status: 200 });
    expect(await ask('GET', `/api/v1/journal?words=${words(33)}`)).toMatchObject({ status: 400 });
    expect(await ask('PUT', '/api/v1/sessions')).toMatchObject({ status: 405, body: { code: 'METHOD_NOT_ALLOWED' } });
    for (const path of ['/api/v1/', '/api/v1/openapiXjson', '/api/v2/sessions', '/api/v1/sessions/%ff']) {
      expect((await ask('GET', path)).type).toBe('application/problem+json');
    }
  });

  test('L13: shows the calls of a session, the newest first, page by page, and after its end', async () => {
    const opened = await gateway.createSession({ name: 'caller' });
    const [other, own] = [await gateway.createSession(), `${url}/mcp/ambit`];
    for (const tool of ['session_info', 'session_state_list', 'session_info']) {
      await readToolText(callModern(own, opened.token, tool, '{"session":"current"}'));
      await readToolText(callModern(own, other.token, tool, '{"session":"current"}'));
    }
    await readToolText(callModern(own, opened.token, 'session_info', '{"session":"nobody"}'));
    const calls = async (query = '', id = 'caller') => {
      const { status, body } = await ask('GET', `/api/v1/sessions/${id}/calls${query}`);
      return { status, next: body['next'], calls: (body['calls'] ?? []) as Record<string, unknown>[] };
    };
    const whole = await calls();
    expect(whole.calls.map(({ name, outcome }) => `${name} ${outcome}`)).toEqual([
      'session_info SESSION_NOT_FOUND',
      'session_info ok',
      'session_state_list ok',
      'session_info ok',
    ]);
    expect(whole.next).toBeNull();
    const first = await calls('?limit=3');
    const second = await calls(`?limit=3&before=${first.next}`);
    expect([...first.calls, ...second.calls]).toEqual(whole.calls);
    for (const query of ['?limit=0', '?limit=201', '?limit=x', '?before=-1', '?before=1e9', '?before=']) {
      expect((await calls(query)).status).toBe(400);
    }
    await gateway.endSession(opened.id);
    expect((await calls('', opened.id)).calls).toEqual(whole.calls);
    for (const id of ['caller', 'nobody', '..%2f..', '%00']) expect((await calls('', id)).status).toBe(404);
    expect(JSON.stringify(whole)).not.toContain(opened.token);
  });

  test('describes itself', async () => {
    const { status, body } = await ask('GET', '/api/v1/openapi.json');
    expect(status).toBe(200);
    expect(body).toEqual(JSON.parse(JSON.stringify(await describeApi())));
    const { schemas } = body['components'] as { schemas: object };
    for (const [, name = ''] of JSON.stringify(body).matchAll(/"\$ref":"([^"]*)"/g)) {
      expect(Object.keys(schemas).map((each) => `#/components/schemas/${each}`)).toContain(name);
    }
    const described = Object.entries(body['paths'] as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(described.sort()).toEqual([...Object.keys(routes), `GET ${eventsPath}`, `POST ${stopPath}`].sort());
    const operations = Object.entries(body['paths'] as Record<string, Record<string, Record<string, unknown>>>).flatMap(
      ([path, methods]) => Object.entries(methods).map(([method, each]) => ({ name: `${method} ${path}`, ...each })),
    );
    const roles = operations.map((operation) => (operation as Record<string, unknown>)['x-ambit-role']);
    expect(new Set(roles)).toEqual(new Set(['viewer', 'admin']));
    expect(operations.filter((each) => 'security' in each).map(({ name }) => name)).toEqual(['post /api/v1/consoles']);
  });
});

describe('the admin token', () => {
  test('lies in a private file, stays the same, and is in no log', async () => {
    expect(statSync(join(dataDir, 'admin-token')).mode & 0o777).toBe(0o600);
    const again = await openAdminToken(dataDir);
    expect(again.matches(`Bearer ${token}`)).toBe(true);
    expect(lines.join('\n')).not.toContain(token);
  });

  test('of several who start at once there is one', async () => {
    const fresh = mkdtempSync(join(folder, 'fresh-'));
    const all = await Promise.all([1, 2, 3, 4].map(() => openAdminToken(fresh)));
    const made = readFileSync(join(fresh, 'admin-token'), 'utf8').trim();
    expect(all.every(({ matches: isCarriedBy }) => isCarriedBy(`Bearer ${made}`))).toBe(true);
  });

  test('that others can read is none', async () => {
    const open = mkdtempSync(join(folder, 'open-'));
    writeFileSync(join(open, 'admin-token'), 'x'.repeat(50), { mode: 0o644 });
    await expect(openAdminToken(open)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    rmSync(join(open, 'admin-token'));
    writeFileSync(join(open, 'admin-token'), '', { mode: 0o600 });
    await expect(openAdminToken(open)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  });
});

describe('events', () => {
  const events = (more: Record<string, string> = {}) =>
    readEvents(`${url}/api/v1/events`, { authorization: `Bearer ${token}`, ...more });

  test('are read by 64 readers of one role at most, and by others once those have left', async () => {
    const made = await ask('POST', '/api/v1/consoles/links', { body: { role: 'viewer' } });
    const { hash } = new URL(String(made.body['url']));
    const code = hash.replace('#code=', '');
    const signedIn = await ask('POST', '/api/v1/consoles', { body: { code }, headers: { authorization: '' } });
    const viewer = String(signedIn.body['token']);
    const readers = [];
    for (let n = 0; n < 65; n++) readers.push(await events());
    expect(readers.at(-1)?.response.statusCode).toBe(503);
    const other = await events({ authorization: `Bearer ${viewer}` });
    expect(other.response.statusCode).toBe(200);
    other.close();
    // A reader of an earlier test may still be leaving.
    expect(readers.filter(({ response }) => response.statusCode === 200).length).toBeGreaterThan(60);
    for (const reader of readers) reader.close();
    const again = async () => {
      const reader = await events();
      reader.close();
      return reader.response.statusCode;
    };
    await expect.poll(again).toBe(200);
  });

  test('L13: tell of each step in the life of a session', async () => {
    const reader = await events();
    expect(reader.response.headers['content-type']).toBe('text/event-stream');
    const { id } = await gateway.createSession({ name: 'watched', ttlSeconds: 60 });
    await gateway.restrictSession(id, { ttlSeconds: 30 });
    await gateway.endSession(id);
    const brief = await gateway.createSession({ ttlSeconds: 1 });
    await reader.hears(({ event }) => event === 'expired');
    const told = reader.heard.map(({ event, data }) => [event, (data['session'] as { id: string }).id]);
    expect(told).toEqual([
      ['created', id],
      ['restricted', id],
      ['ended', id],
      ['created', brief.id],
      ['expired', brief.id],
    ]);
    expect(reader.heard[2]?.data).toMatchObject({ type: 'ended', reason: 'ended', session: { name: 'watched' } });
    expect(JSON.stringify(reader.heard)).not.toMatch(/digest|ambs_/i);
    reader.close();
  });

  test('a further token of a session is no step of its life', async () => {
    const reader = await events();
    const { id } = await gateway.createSession();
    await ask('POST', `/api/v1/sessions/${id}/servers`, { body: { via: 'gateway' } });
    await gateway.endSession(id);
    await reader.hears(({ event }) => event === 'ended');
    expect(reader.heard.map(({ event }) => event)).toEqual(['created', 'ended']);
    reader.close();
  });

  test('whoever comes back hears what was missed', async () => {
    const first = await events();
    const { id } = await gateway.createSession();
    const { id: last } = await first.hears(({ event }) => event === 'created');
    first.close();
    await first.ended;
    await gateway.endSession(id);
    const back = await events({ 'last-event-id': last ?? '' });
    expect((await back.hears(() => true)).event).toBe('ended');
    back.close();
  });

  test('whoever was away too long, or heard another process, is told so', async () => {
    for (const id of ['00000000-7', 'x', '-', '../..', '9'.repeat(40)]) {
      const reader = await events({ 'last-event-id': id });
      expect((await reader.hears(() => true)).data).toMatchObject({ type: 'lost' });
      reader.close();
    }
  });
});
