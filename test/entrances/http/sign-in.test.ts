import { readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { Route } from '../../../src/entrances/control/route.ts';
import { eventsPath, routes, stopPath } from '../../../src/entrances/control/routes.ts';
import { type HttpListener, listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import { readJournal } from '../../gateway/shared-data.ts';
import { openRawSocket, writeHead } from '../../journeys/hostile/raw-socket.ts';
import { checkAnswer } from '../control/check-answer.ts';
import { readEvents } from './event-reader.ts';
import { openJwtGateway } from './jwt-gateway.ts';

const log = { info() {}, warn() {} };
let folder: string;
let gateway: Gateway;
let http: HttpListener;
let admin: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-sign-in-'));
  ({ gateway, http } = await openListener('data'));
  admin = readFileSync(http.adminTokenFile, 'utf8').trim();
});
afterAll(async () => {
  await http?.close(0);
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function openListener(name: string, listen: object = {}) {
  const text = JSON.stringify({ version: 1, store: { kind: 'memory' }, listen });
  const { config } = await loadConfig({ text, file: join(folder, 'ambit.yaml') });
  const options = { config, configFile: join(folder, 'ambit.yaml'), dataDir: join(folder, name), log };
  const opened = await openGateway(options);
  return { gateway: opened, http: await listenHttp(opened, { host: '127.0.0.1', port: 0 }, log) };
}

interface Answer {
  readonly status: number;
  readonly headers: Record<string, unknown>;
  readonly body: Record<string, unknown>;
}

interface Parts {
  readonly token?: string | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  readonly url?: string;
}

function ask(method: string, path: string, { token, body, headers, url = http.url }: Parts = {}): Promise<Answer> {
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  const all = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const sent = request(url + path, { method, headers: all, agent: false }, async (response) => {
      const read = (await response.toArray()).join('');
      const parsed = read.startsWith('{') ? (JSON.parse(read) as Record<string, unknown>) : {};
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: parsed });
    });
    sent.on('error', reject);
    sent.end(text);
  });
}

async function makeLink(role: 'admin' | 'viewer' = 'admin', token = admin) {
  const { status, body } = await ask('POST', '/api/v1/consoles/links', { token, body: { role } });
  expect(status).toBe(201);
  return new URL(String(body['url']));
}

const readCode = (link: URL) => link.hash.replace('#code=', '');
const redeem = (code: string, more: Parts = {}) => ask('POST', '/api/v1/consoles', { body: { code }, ...more });

async function signIn(role: 'admin' | 'viewer' = 'admin') {
  const { status, body } = await redeem(readCode(await makeLink(role)));
  expect(status).toBe(201);
  return body as { id: string; token: string; role: string };
}

const whoami = (token?: string) => ask('GET', '/api/v1/whoami', { token });
const sessions = '/api/v1/sessions';

/** Every address of the API with its lowest role. */
const addresses = [
  ...Object.entries<Route>(routes).map(([name, { role }]) => ({ name, role })),
  { name: `GET ${eventsPath}`, role: 'viewer' as const },
  { name: `POST ${stopPath}`, role: 'admin' as const },
  { name: 'GET /api/v1/servers/x/logs?follow=true', role: 'viewer' as const },
].map(({ name, role }) => {
  const [method = '', path = ''] = name.replace('{id}', 'current').split(' ');
  return { name, role, method, path };
});

describe('signing in', () => {
  test('S10: a link signs in once, and its token has its role', async () => {
    const link = await makeLink('viewer');
    expect([link.origin, link.pathname, link.search]).toEqual([http.url, '/', '']);
    const opened = await redeem(readCode(link));
    checkAnswer('POST', '/api/v1/consoles', opened.status, opened.body);
    expect(opened.body).toMatchObject({ role: 'viewer', by: 'admin-token', token: expect.stringMatching(/^ambc_/) });
    const { token, id } = opened.body as { token: string; id: string };
    expect((await whoami(token)).body).toMatchObject({ role: 'viewer', by: 'admin-token', consoleId: id });
    expect(await redeem(readCode(link))).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
  });

  test('the admin token opens a console too; the token of a console opens none', async () => {
    const { status, body } = await ask('POST', '/api/v1/consoles', { token: admin, body: {} });
    expect([status, body['role']]).toEqual([201, 'admin']);
    const token = String(body['token']);
    expect((await ask('POST', '/api/v1/consoles', { token, body: {} })).status).toBe(403);
    const code = readCode(await makeLink());
    expect((await redeem(code, { token: admin })).status).toBe(400);
    expect((await redeem(code)).status).toBe(201);
  });

  test('the link of a console ends with that console', async () => {
    const first = await signIn();
    const second = await redeem(readCode(await makeLink('admin', first.token)));
    const token = String(second.body['token']);
    expect((await whoami(token)).status).toBe(200);
    await ask('DELETE', '/api/v1/consoles/current', { token: first.token });
    expect([(await whoami(token)).status, (await whoami(first.token)).status]).toEqual([401, 401]);
  });

  test('uses publicUrl in links, and the loopback address instead of the one for all', async () => {
    const other = await openListener('public', { publicUrl: 'https://ambit.example/' });
    const token = readFileSync(other.http.adminTokenFile, 'utf8').trim();
    const asked = { token, body: {}, url: other.http.url };
    const { body } = await ask('POST', '/api/v1/consoles/links', asked);
    expect(body['url']).toMatch(/^https:\/\/ambit\.example\/#code=ambo_/);
    expect(body['browserUrl']).toBeNull();
    // The page behind publicUrl is the only other page that may ask.
    const own = { ...asked, headers: { origin: 'https://ambit.example', host: 'ambit.example' } };
    expect((await ask('POST', '/api/v1/consoles/links', own)).status).toBe(201);
    for (const origin of ['http://ambit.example', 'https://ambit.example:1', 'https://ambit.example.evil.example']) {
      const foreign = { ...asked, headers: { origin, host: 'ambit.example' } };
      expect((await ask('POST', '/api/v1/consoles/links', foreign)).status).toBe(403);
    }
    await other.http.close(0);
    await other.gateway.close();
  });

  test('is in the journal, without code and token', async () => {
    const link = await makeLink('viewer');
    const { body } = await redeem(readCode(link));
    await ask('DELETE', `/api/v1/consoles/${body['id']}`, { token: admin });
    const lines = () => readJournal(join(folder, 'data')).filter(({ consoleId }) => consoleId === body['id']);
    await expect.poll(() => lines().map(({ event }) => event)).toEqual(['console-opened', 'console-revoked']);
    const whole = readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8');
    expect(whole).not.toMatch(/amb[aco]_/);
  });
});

describe('S10: without a credential', () => {
  test('every address refuses', async () => {
    for (const { name, method, path } of addresses) {
      const bodies = method === 'GET' ? [undefined] : [undefined, {}];
      for (const body of bodies) {
        const { status, headers } = await ask(method, path, { body });
        expect(status, name).toBeGreaterThanOrEqual(400);
        expect(status, name).toBeLessThan(500);
        expect(headers['access-control-allow-origin'], name).toBeUndefined();
      }
    }
  });

  test('a token in the address is ignored, and OPTIONS and TRACE say nothing', async () => {
    for (const query of [`token=${admin}`, `access_token=${admin}`, `code=${admin}`]) {
      expect((await ask('GET', `${sessions}?${query}`)).status).toBe(401);
    }
    for (const method of ['OPTIONS', 'TRACE', 'HEAD', 'PUT']) {
      const { status, headers, body } = await ask(method, sessions, { headers: { origin: http.url } });
      expect([method, status]).toEqual([method, 401]);
      expect(JSON.stringify([headers, body])).not.toContain('access-control');
      expect((await ask(method, sessions, { token: admin })).status).toBe(405);
    }
  });

  test('a code must come as JSON, in a short body, from no other page', async () => {
    const code = readCode(await makeLink());
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x']) {
      expect((await redeem(code, { headers: { 'content-type': type } })).status).toBe(415);
    }
    expect((await ask('POST', '/api/v1/consoles', { body: { code, pad: 'x'.repeat(2000) } })).status).toBe(413);
    expect((await ask('POST', '/api/v1/consoles', { body: '{' })).status).toBe(400);
    expect((await redeem(code, { headers: { origin: 'http://127.0.0.1:1' } })).status).toBe(403);
    expect((await redeem(code)).status).toBe(201);
  });

  test('S7, S9: whoever fails often must wait, and is in the journal', async () => {
    const other = await openListener('guessing');
    const { url } = other.http;
    const statuses = new Set<number>();
    let last: Answer | undefined;
    for (let n = 0; n < 40; n++) {
      last = await redeem(`ambo_${'0'.repeat(32)}_${'0'.repeat(49)}`, { url });
      statuses.add(last.status);
    }
    expect([...statuses]).toEqual([401, 429]);
    expect(Number(last?.headers['retry-after'])).toBeGreaterThan(0);
    // Somebody who knows a credential or a code is not shut out.
    const made = other.gateway.running.consoles.createCode({ role: 'viewer', by: 'x' });
    expect((await redeem(made.code, { url })).status).toBe(201);
    const token = readFileSync(other.http.adminTokenFile, 'utf8').trim();
    expect((await ask('POST', '/api/v1/consoles', { token, body: {}, url })).status).toBe(201);
    await other.http.close(0);
    await other.gateway.close();
    const lines = readJournal(join(folder, 'guessing')).filter(({ event }) => event === 'sign-in');
    expect(lines[0]).toMatchObject({ kind: 'refusal', status: 401, code: 'UNAUTHENTICATED', address: '127.0.0.1' });
    expect(lines.length).toBeLessThan(40);
  });
});

describe('S10: a viewer', () => {
  test('is refused at every address of an administrator, and can read all others', async () => {
    const { token } = await signIn('viewer');
    const denied = { status: 403, body: { code: 'PERMISSION_DENIED' } };
    for (const { name, role, method, path } of addresses) {
      if (role !== 'admin') continue;
      for (const body of method === 'GET' ? [undefined] : [undefined, {}, { role: 'viewer' }]) {
        const headers = { 'content-type': 'application/json' };
        expect(await ask(method, path, { token, body, headers }), name).toMatchObject(denied);
      }
    }
    for (const path of [sessions, '/api/v1/status', '/api/v1/journal', '/api/v1/servers', '/metrics']) {
      expect((await ask('GET', path, { token })).status, path).toBe(200);
    }
  });

  test('gets no more by signing in, by links, or by signing out others', async () => {
    const { token, id } = await signIn('viewer');
    const other = await signIn();
    for (const body of [{}, { role: 'admin' }, { code: 'x' }]) {
      const { status } = await ask('POST', '/api/v1/consoles', { token, body });
      expect([400, 403]).toContain(status);
    }
    expect((await ask('DELETE', `/api/v1/consoles/${other.id}`, { token })).status).toBe(403);
    expect((await ask('DELETE', `/api/v1/consoles/${'0'.repeat(32)}`, { token })).status).toBe(403);
    expect((await whoami(other.token)).status).toBe(200);
    expect(await ask('DELETE', '/api/v1/consoles/current', { token })).toMatchObject({ status: 200, body: { id } });
    expect((await whoami(token)).status).toBe(401);
  });

  test('cannot use the token for tools', async () => {
    const { token } = await signIn();
    expect((await ask('POST', '/mcp', { token, body: {} })).status).toBe(401);
  });

  test('is also whom an identity provider gives the role, for as long as the access token is valid', async () => {
    const roles = { admin: ['ops'], viewer: ['audit'] };
    const jwt = await openJwtGateway({ idp: { roles } as never });
    const url = jwt.origin;
    const of = (claims: object) => jwt.token('idp', claims as Record<string, unknown>);
    const viewer = await of({ roles: ['audit'] });
    const asked = await ask('POST', '/api/v1/consoles', { token: viewer, body: {}, url });
    expect(asked).toMatchObject({ status: 201, body: { role: 'viewer' } });
    const { exp } = JSON.parse(Buffer.from(viewer.split('.')[1] ?? '', 'base64url').toString()) as { exp: number };
    expect(Date.parse(String(asked.body['expiresAt']))).toBeLessThanOrEqual((exp + 5) * 1000);
    expect((await ask('POST', '/api/v1/consoles/links', { token: viewer, body: {}, url })).status).toBe(403);
    expect((await ask('GET', '/api/v1/whoami', { token: await of({ roles: ['ops'] }), url })).body['role']).toBe(
      'admin',
    );
    expect((await ask('GET', '/api/v1/whoami', { token: await of({ roles: ['other'] }), url })).status).toBe(401);
    await jwt.close();
  });
});

describe('S10: signing out', () => {
  test('ends open streams at once, and the token is not valid any more', async () => {
    const { id, token } = await signIn('viewer');
    const stream = await readEvents(`${http.url}${eventsPath}`, { authorization: `Bearer ${token}` });
    expect((await ask('DELETE', `/api/v1/consoles/${id}`, { token: admin })).body).toEqual({ id, revoked: true });
    await stream.ended;
    expect((await whoami(token)).status).toBe(401);
    expect((await ask('DELETE', `/api/v1/consoles/${id}`, { token: admin })).status).toBe(404);
  });

  test('a request whose body arrives after it changes nothing', async () => {
    const { id, token } = await signIn();
    const body = JSON.stringify({ name: 'late' });
    const wire = await openRawSocket(http.url);
    const head = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': body.length,
    };
    await wire.say(writeHead('/api/v1/users', { ...head, expect: '100-continue' }));
    await wire.hears(/100 Continue/);
    await ask('DELETE', `/api/v1/consoles/${id}`, { token: admin });
    await wire.say(body);
    expect(await wire.hears(/"code"/)).toContain('401 Unauthorized');
    wire.reset();
    expect((await ask('GET', '/api/v1/users/late', { token: admin })).status).toBe(404);
  });

  test('happens by itself when the time is over', async () => {
    const { token } = gateway.running.consoles.open({ role: 'admin', by: 'x', until: Date.now() + 300 }, undefined);
    const stream = await readEvents(`${http.url}${eventsPath}`, { authorization: `Bearer ${token}` });
    expect(stream.response.statusCode).toBe(200);
    await stream.ended;
    expect((await whoami(token)).status).toBe(401);
  });
});

test('readers of events who leave while their credential is checked take no place of others', async () => {
  const jwt = await openJwtGateway({ idp: { roles: { viewer: ['audit'] } } as never });
  const token = await jwt.token('idp', { roles: ['audit'] });
  let answer = () => {};
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  jwt.keys('idp').state.onAsked = () => answered;
  /** Connections take turns: once a later one is answered, those before were read. */
  const waitForTurn = () => ask('GET', '/healthz', { url: jwt.origin });
  const wires = await Promise.all(Array.from({ length: 70 }, () => openRawSocket(jwt.origin)));
  for (const wire of wires) await wire.say(writeHead(eventsPath, { authorization: `Bearer ${token}` }, 'GET'));
  await waitForTurn();
  for (const wire of wires) wire.reset();
  await waitForTurn();
  answer();
  // Tokens are verified in turn, too.
  const other = await jwt.token('idp', { roles: ['audit'] });
  expect((await ask('GET', '/api/v1/whoami', { token: other, url: jwt.origin })).status).toBe(200);
  const stream = await readEvents(jwt.origin + eventsPath, { authorization: `Bearer ${token}` });
  expect(stream.response.statusCode).toBe(200);
  stream.close();
  await jwt.close();
});

describe('S10: a page that is not of the gateway', () => {
  const port = () => new URL(http.url).port;
  const foreign: Record<string, () => Record<string, string>> = {
    'of another port': () => ({ origin: 'http://127.0.0.1:1' }),
    'of another port without Origin': () => ({ 'sec-fetch-site': 'same-site' }),
    'of another site': () => ({ 'sec-fetch-site': 'cross-site' }),
    'of an unknown kind': () => ({ 'sec-fetch-site': 'same-origin, cross-site' }),
    'of another name of this machine': () => ({ origin: `http://localhost:${port()}` }),
    'of another scheme': () => ({ origin: `https://127.0.0.1:${port()}` }),
    'without an origin': () => ({ origin: 'null' }),
    'with a name that only begins like ours': () => ({ origin: `${http.url}.evil.example` }),
    'with a path': () => ({ origin: `${http.url}/` }),
    'after DNS rebinding': () => ({ host: `evil.example:${port()}`, origin: `http://evil.example:${port()}` }),
    'with a forged Host': () => ({ host: 'localhost:1', origin: http.url }),
  };

  test.each(Object.entries(foreign))('%s is refused whatever it sends', async (_name, headers) => {
    const { token } = await signIn();
    for (const credential of [undefined, token, admin]) {
      const asked = { token: credential, headers: headers() };
      expect((await ask('GET', sessions, asked)).status).toBe(403);
      expect((await ask('POST', '/api/v1/consoles', { ...asked, body: {} })).status).toBe(403);
    }
  });

  test('S9: leaves a line in the journal', async () => {
    const find = () => readJournal(join(folder, 'data')).filter(({ event }) => event === 'origin');
    await ask('GET', sessions, { headers: { origin: 'http://127.0.0.1:1' } });
    await expect.poll(() => find().at(-1)).toMatchObject({ kind: 'refusal', status: 403, address: '127.0.0.1' });
  });

  test('the own page, the address bar and programs are served, and pages of listen.allowedOrigins', async () => {
    const own = [{}, { origin: http.url, 'sec-fetch-site': 'same-origin' }, { 'sec-fetch-site': 'none' }];
    for (const headers of own) expect((await ask('GET', sessions, { token: admin, headers })).status).toBe(200);
    const other = await openListener('allowed', { allowedOrigins: ['https://tools.example'] });
    const token = readFileSync(other.http.adminTokenFile, 'utf8').trim();
    const asked = (origin: string) =>
      ask('GET', sessions, { token, url: other.http.url, headers: { origin, 'sec-fetch-site': 'cross-site' } });
    expect((await asked('https://tools.example')).status).toBe(200);
    expect((await asked('https://tools.example:1')).status).toBe(403);
    await other.http.close(0);
    await other.gateway.close();
  });
});
