import { readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { listenControl } from '../../../src/entrances/control/listen-control.ts';
import { type HttpListener, listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { serveStdio } from '../../../src/entrances/stdio/serve-stdio.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import { allServers } from '../../../src/gateway/exchange.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import { readJournal } from '../../gateway/shared-data.ts';
import { openRawSocket, writeHead } from '../../journeys/hostile/raw-socket.ts';
import { modernHeaders, modernRequest } from '../../journeys/json-mcp-client.ts';
import { requestControl } from '../../journeys/request-control.ts';

const bodyBytes = 2000;
const log = { info() {}, warn() {} };
let folder: string;
let gateway: Gateway;
let http: HttpListener;
let token: string;
let admin: string;
let sessionId: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-refusals-'));
  const text = JSON.stringify({ version: 1, limits: { bodyBytes }, listen: { publicUrl: 'http://127.0.0.1' } });
  const configFile = join(folder, 'ambit.yaml');
  const { config } = await loadConfig({ text, file: configFile });
  gateway = await openGateway({ config, configFile, dataDir: join(folder, 'data'), log });
  http = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log);
  const opened = await gateway.openSession({});
  ({ token } = opened);
  sessionId = opened.session.id;
  admin = readFileSync(http.adminTokenFile, 'utf8').trim();
});
afterAll(async () => {
  await http?.close(0);
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

const lines = () => readJournal(join(folder, 'data')).filter(({ kind }) => kind === 'refusal');
const linesOf = (event: string) => lines().filter((line) => line['event'] === event);

/** Waits for the one line that is new, and has these fields. */
async function expectLine(before: number, fields: Record<string, unknown>): Promise<void> {
  await expect.poll(() => lines().length).toBeGreaterThan(before);
  expect(lines().slice(before)).toEqual([expect.objectContaining(fields)]);
}

const call = JSON.stringify(modernRequest(1, 'tools/call', { name: 'session_info', arguments: {} }));
const post = (lines: Record<string, string | number>, body = call) =>
  writeHead('/mcp', { 'content-length': body.length, ...lines }) + body;
const good = () => ({ authorization: `Bearer ${token}`, ...modernHeaders('tools/call', 'session_info') });
const manyKeys = `{${Array.from({ length: 10_001 }, (_, i) => `"${i}":1`)}}`;

const requests: Record<string, [() => string, status: number, fields: Record<string, unknown>]> = {
  'no credential': [() => post({}), 401, { event: 'credential', code: 'UNAUTHENTICATED', path: '/mcp' }],
  'a stream without one': [() => writeHead('/mcp', {}, 'GET'), 401, { event: 'credential', method: 'GET' }],
  'a wrong admin token': [
    () => writeHead('/api/v1/sessions', { authorization: 'Bearer x' }, 'GET'),
    401,
    { event: 'admin' },
  ],
  'a wrong Host': [() => post({ ...good(), host: 'evil.example' }), 403, { event: 'host' }],
  'no Host': [() => 'GET /healthz HTTP/1.1\r\n\r\n', 400, { event: 'host' }],
  'a wrong Origin': [() => post({ ...good(), origin: 'https://evil.example' }), 403, { event: 'origin' }],
  'an unknown address': [() => writeHead('/nothing?secret=1', {}, 'GET'), 404, { event: 'address', path: '/nothing' }],
  'an unknown method': [() => writeHead('/mcp', good(), 'PUT'), 405, { event: 'method', method: 'PUT' }],
  'a stream without a transport session': [() => writeHead('/mcp', good(), 'GET'), 405, { event: 'method' }],
  CONNECT: [() => writeHead('127.0.0.1:1', {}, 'CONNECT'), 0, { event: 'method', method: 'CONNECT' }],
  'a body of another type': [() => post({ ...good(), 'content-type': 'text/plain' }), 415, { event: 'type' }],
  'a body that is too long': [() => post({ ...good() }, ' '.repeat(bodyBytes + 1)), 413, { event: 'length' }],
  'no JSON': [() => post(good(), '{'), 400, { event: 'message', code: '-32700' }],
  'a key twice': [() => post(good(), call.replace('{', '{"id":2,')), 400, { event: 'message', code: '-32600' }],
  'a key in another spelling': [() => post(good(), call.replace('"name"', '"Name"')), 400, { event: 'message' }],
  'headers that disagree': [() => post({ ...good(), 'mcp-name': 'other' }), 400, { event: 'envelope', code: '-32020' }],
  'a version nobody speaks': [
    () =>
      post(
        { authorization: `Bearer ${token}`, 'mcp-protocol-version': '1999-01-01' },
        '{"jsonrpc":"2.0","method":"x"}',
      ),
    400,
    { event: 'envelope', code: '-32000' },
  ],
  'no HTTP': [() => 'hello\r\n\r\n', 400, { event: 'request', code: 'HPE_INVALID_METHOD' }],
  'a head that is too long': [() => writeHead('/mcp', { x: 'y'.repeat(20_000) }), 431, { event: 'request' }],
  'an expectation': [() => writeHead('/mcp', { expect: 'miracles', 'content-length': 0 }), 417, { event: 'request' }],
  'a link that ran out': [() => writeHead('/login/0123456789', {}, 'GET'), 410, { event: 'login', path: '/login/' }],
  'metrics by POST': [() => writeHead('/metrics', { 'content-length': 0 }), 405, { event: 'method' }],
  'a question of an administrator': [
    () => writeHead('/api/v1/sessions/none', { authorization: `Bearer ${admin}` }, 'GET'),
    404,
    { event: 'control', by: 'admin-token', code: 'SESSION_NOT_FOUND' },
  ],
};

test.each(Object.entries(requests))('S9: %s leaves a line', async (_what, [bytes, status, fields]) => {
  const before = lines().length;
  const wire = await openRawSocket(http.url);
  await wire.say(bytes());
  const said = await wire.hears(/\r\n\r\n/).catch(() => wire.heard());
  expect(Number(/^HTTP\/1\.1 (\d+)/.exec(said)?.[1] ?? 0)).toBe(status);
  wire.reset();
  await expectLine(before, { entrance: 'http', ...(status === 0 ? {} : { status }), ...fields });
});

test('S9: what somebody with a credential is refused names them, and no token is in any line', () => {
  expect(linesOf('message').map((line) => line['sessionId'])).toContain(sessionId);
  expect(linesOf('credential').every(({ address }) => address === '127.0.0.1')).toBe(true);
  expect(JSON.stringify(lines())).not.toMatch(/amb[sk]_|0123456789/);
});

test('S9: a refusal at the control socket leaves a line', async () => {
  const before = lines().length;
  const socket = join(folder, 'data', 'control.sock');
  const control = await listenControl(gateway, socket);
  await expect(requestControl(socket, 'GET', '/api/v1/nothing')).rejects.toThrow('404');
  await expectLine(before, { event: 'control', entrance: 'control', by: 'control-socket', status: 404 });
  await control.close();
});

test.each([
  ['no JSON', '{', { event: 'message', code: '-32700' }],
  ['too many keys', manyKeys, { event: 'message', code: '-32600' }],
  ['a line that is too long', ' '.repeat(200_001), { event: 'length' }],
  ['a batch', '[]', { event: 'batch' }],
  ['a version nobody speaks', call.replace('2026-07-28', '2099-01-01'), { event: 'envelope', code: '-32022' }],
])('S9: on stdio, %s leaves a line', async (_what, line, fields) => {
  const before = lines().length;
  const [input, output] = [new PassThrough(), new PassThrough()];
  const limits = { ...gateway.config.limits, bodyBytes: 200_000 };
  const roomy = Object.create(gateway, { config: { value: { ...gateway.config, limits } } }) as Gateway;
  const over = serveStdio({ gateway: roomy, server: allServers, sessionId, input, output });
  input.end(`${line}\n`);
  await over;
  expect(JSON.parse(String(output.read()))).toHaveProperty('error');
  await expectLine(before, { entrance: 'stdio', sessionId, ...fields });
});
