import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { type HttpListener, listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';

const log = { info() {}, warn() {} };
const folder = mkdtempSync(join(tmpdir(), 'ambit-page-'));
const built = join(folder, 'console');
const script = `console.log('${'a'.repeat(5000)}');\n`;
let gateway: Gateway;
let http: HttpListener;
let bare: HttpListener;

beforeAll(async () => {
  mkdirSync(join(built, 'assets/deep'), { recursive: true });
  const files = {
    'index.html': '<!doctype html><title>Ambit</title>',
    'favicon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
    'secret.txt': 'no page',
    'assets/index-1a2b.js': script,
    'assets/index-3c4d.css': 'a{}',
    'assets/index-1a2b.js.map': '{}',
    'assets/deep/other.js': 'no asset',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(built, name), text);
  symlinkSync('/etc/hostname', join(built, 'assets/link.js'));
  const { config } = await loadConfig({
    text: '{"version":1,"store":{"kind":"memory"}}',
    file: join(folder, 'x.yaml'),
  });
  gateway = await openGateway({ config, configFile: join(folder, 'x.yaml'), dataDir: join(folder, 'data'), log });
  http = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log, built);
  bare = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, log, join(folder, 'nothing'));
});
afterAll(async () => {
  await bare?.close(0);
  await http?.close(0);
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Told {
  readonly status: number;
  readonly headers: Record<string, string | undefined>;
  readonly bytes: Buffer;
}

function ask(path: string, headers: Record<string, string> = {}, method = 'GET', url = http.url): Promise<Told> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    // The path is sent as it is here, with its dots.
    const sent = request({ hostname, port, path, method, headers, agent: false }, async (response) => {
      const bytes = Buffer.concat(await response.toArray());
      resolve({ status: response.statusCode ?? 0, headers: response.headers as Told['headers'], bytes });
    });
    sent.on('error', reject).end();
  });
}

test('S10: the page, its icon and its assets need no credential, and are of the gateway alone', async () => {
  const page = await ask('/?x=1');
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
  expect(page.bytes.toString()).toContain('<title>Ambit');
  expect(page.headers).toMatchObject({
    'cache-control': 'no-cache',
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  });
  const policy = page.headers['content-security-policy'] ?? '';
  for (const part of ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'none'"])
    expect(policy.split('; ')).toContain(part);
  expect(policy).not.toMatch(/unsafe|\*|http/);
  expect(page.headers['set-cookie']).toBeUndefined();
  const asset = await ask('/assets/index-1a2b.js');
  expect(asset.headers).toMatchObject({
    'content-type': 'text/javascript; charset=utf-8',
    'cache-control': 'public, max-age=31536000, immutable',
    'content-security-policy': policy,
  });
  expect(asset.bytes.toString()).toBe(script);
  expect((await ask('/assets/index-3c4d.css')).headers['content-type']).toBe('text/css; charset=utf-8');
  expect((await ask('/favicon.svg')).headers['content-type']).toBe('image/svg+xml');
});

test('what the browser has is not sent again, and the rest is zipped where it can be read', async () => {
  const { headers } = await ask('/');
  for (const tag of [headers['etag'] ?? '', `"x", ${headers['etag']}`, '*']) {
    const again = await ask('/', { 'if-none-match': tag });
    expect([again.status, again.bytes.length, again.headers['etag']]).toEqual([304, 0, headers['etag']]);
  }
  expect((await ask('/', { 'if-none-match': '"x"' })).status).toBe(200);
  const zipped = await ask('/assets/index-1a2b.js', { 'accept-encoding': 'br, gzip;q=0.5' });
  expect(zipped.headers).toMatchObject({ 'content-encoding': 'gzip', vary: 'Accept-Encoding' });
  expect(gunzipSync(zipped.bytes).toString()).toBe(script);
  for (const accepted of ['identity', 'gzip;q=0', 'br']) {
    const plain = await ask('/assets/index-1a2b.js', { 'accept-encoding': accepted });
    expect([plain.headers['content-encoding'], plain.bytes.toString()]).toEqual([undefined, script]);
  }
  const head = await ask('/assets/index-1a2b.js', {}, 'HEAD');
  expect([head.status, head.bytes.length, head.headers['content-length']]).toEqual([200, 0, String(script.length)]);
});

test('S10: no path leads out of the list of files', async () => {
  const paths = [
    ...['/index.html', '/secret.txt', '/assets/', '/assets', '/assets/deep/other.js', '/assets/link.js'],
    ...['/assets/../index.html', '/assets/..%2fsecret.txt', '/assets/%2e%2e/secret.txt', '/assets//index-1a2b.js'],
    ...['/assets/index-1a2b.js.map', '/assets/constructor', '/assets/__proto__', '/assets/index-1a2b.js%00'],
    ...['//', '/sessions/1', '/assets/..\\secret.txt'],
  ];
  for (const path of paths) {
    const { status, headers } = await ask(path);
    expect([path, status, headers['content-type']]).toEqual([path, 404, 'application/json']);
  }
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'])
    expect((await ask('/', {}, method)).status).toBe(405);
});

test('without a built console, the address says how to build it', async () => {
  const { status, bytes } = await ask('/', {}, 'GET', bare.url);
  expect([status, JSON.parse(bytes.toString())]).toEqual([
    404,
    { error: 'Not found', error_description: expect.stringContaining('npm run build') },
  ]);
});

test('S10: the page holds no credential', async () => {
  const token = readFileSync(http.adminTokenFile, 'utf8').trim();
  for (const path of ['/', '/favicon.svg', '/assets/index-1a2b.js'])
    expect(JSON.stringify(await ask(path))).not.toContain(token);
});
