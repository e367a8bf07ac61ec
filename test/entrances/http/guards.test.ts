import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { type HttpListener, listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';

const log = { info() {}, warn() {} };
const folder = mkdtempSync(join(tmpdir(), 'ambit-guards-'));
const dataDir = join(folder, 'data');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(host: string) {
  const configFile = join(folder, 'ambit.yaml');
  const { config } = await loadConfig({ text: '{"version":1,"store":{"kind":"memory"}}', file: configFile });
  const gateway = await openGateway({ config, configFile, dataDir, log });
  const http = await listenHttp(gateway, { host, port: 0 }, log);
  const stop = async () => {
    await http.close(0);
    await gateway.close();
  };
  return { http, hostName: gateway.running.consoles.hostName, stop };
}

interface Link {
  readonly url: string;
  readonly browserUrl: string | null;
}

/** Sends a request to the control API with the admin token. */
function ask<T>({ adminTokenFile, url }: HttpListener, method: string, path: string, headers = {}) {
  const authorization = `Bearer ${readFileSync(adminTokenFile, 'utf8').trim()}`;
  const all = { authorization, 'content-type': 'application/json', ...headers };
  return new Promise<{ readonly status: number; readonly body: T }>((resolve, reject) => {
    const address = new URL(path, url.replace('0.0.0.0', '127.0.0.1'));
    const sent = request(address, { method, headers: all, agent: false }, async (response) => {
      const body = JSON.parse((await response.toArray()).join('')) as T;
      resolve({ status: response.statusCode ?? 0, body });
    });
    sent.on('error', reject);
    sent.end(method === 'POST' ? '{}' : undefined);
  });
}

const statusOf = async (http: HttpListener, headers: Record<string, string>) =>
  (await ask(http, 'GET', '/api/v1/whoami', headers)).status;
const makeLink = (http: HttpListener) => ask<Link>(http, 'POST', '/api/v1/consoles/links');

test('S10: each start has a name for browsers that nobody had before, and accepts no other one', async () => {
  const first = await start('127.0.0.1');
  const { http } = first;
  const { body } = await makeLink(http);
  const [plain, named] = [new URL(body.url), new URL(body.browserUrl ?? '')];
  expect([plain.hostname, named.port, named.hash]).toEqual(['127.0.0.1', plain.port, plain.hash]);
  expect(named.hostname).toMatch(/^[0-9a-f]{32}\.localhost$/);
  const { hostname, host } = named;
  expect(await statusOf(http, { host, origin: named.origin })).toBe(200);
  const others = [
    `${'0'.repeat(32)}.localhost`,
    `a.${hostname}`,
    `${hostname}.`,
    `${hostname}.evil.example`,
    'a.localhost',
  ];
  for (const name of others) {
    expect([name, await statusOf(http, { host: `${name}:${named.port}` })]).toEqual([name, 403]);
  }
  // Each of the two names has its own pages.
  expect(await statusOf(http, { host, origin: plain.origin })).toBe(403);
  expect(await statusOf(http, { host: plain.host, origin: named.origin })).toBe(403);
  await first.stop();

  const next = await start('127.0.0.1');
  expect(next.hostName).not.toBe(hostname);
  expect(await statusOf(next.http, { host })).toBe(403);
  await next.stop();
});

test('S10: a gateway that others on the network can reach has no such name', async () => {
  const { http, hostName, stop } = await start('0.0.0.0');
  expect(await makeLink(http)).toMatchObject({ status: 201, body: { browserUrl: null } });
  expect(await statusOf(http, { host: hostName })).toBe(403);
  await stop();
});
