import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ConfigInput, createGateway } from '../../../src/index.ts';
import { findSample, parseSamples } from '../../observability/metrics/read-samples.ts';
import { sendRaw } from '../http-exchange.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-metrics-'));
afterAll(() => rmSync(folder, { recursive: true }));
let count = 0;

async function serve(listen: ConfigInput['listen']) {
  const dataDir = join(folder, String(++count));
  const config: ConfigInput = { version: 1, listen, servers: {} };
  const gateway = await createGateway({ config, dataDir, log: { info() {}, warn() {} } });
  const { url } = await gateway.listen({ port: 0 });
  const admin = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  return { url, admin, token: (await gateway.createSession()).token, close: () => gateway.close() };
}

async function listening(
  listen: ConfigInput['listen'],
  use: (url: string, token: string, admin: string) => Promise<void>,
): Promise<void> {
  const { url, token, admin, close } = await serve(listen);
  await use(url, token, admin).finally(close);
}

const get = async (url: string, headers: Record<string, string> = {}, method = 'GET') => {
  const answer = await sendRaw(`${url}/metrics`, { method, headers });
  return { status: answer.status, headers: answer.headers, body: (await answer.rest()).join('') };
};

test('L8: on this machine, anybody may read, and Prometheus understands it', async () => {
  await listening({}, async (url) => {
    const { status, headers, body } = await get(url);
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
    expect(parseSamples(body).length).toBeGreaterThan(30);
    expect(findSample(body, 'ambit_sessions_live')).toBe(1);
    expect((await get(url, {}, 'HEAD')).body).toBe('');
    expect((await get(url, {}, 'POST')).status).toBe(405);
    expect((await get(`${url}/x`)).status).toBe(404);
    expect((await sendRaw(`${url}/metrics?name=x`, { method: 'GET' })).status).toBe(200);
  });
});

describe('through a proxy on this machine', () => {
  let served: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    served = await serve({ allowedHosts: ['ambit.example.com'] });
  });
  afterAll(() => served?.close());

  test.each([
    ['x-forwarded-for', '203.0.113.7'],
    ['X-Forwarded-Host', 'ambit.example.com'],
    ['forwarded', 'for=203.0.113.7'],
    ['via', '1.1 tunnel'],
    ['x-real-ip', '203.0.113.7'],
    ['host', 'ambit.example.com'],
  ])('%s: 401, with or without a session’s token', async (name, value) => {
    for (const more of [{}, { authorization: `Bearer ${served.token}` }]) {
      const { status, headers, body } = await get(served.url, { [name]: value, ...more });
      expect([status, headers['www-authenticate'], body]).toEqual([401, 'Bearer realm="ambit"', '']);
    }
  });
});

test('behind a proxy, as configured: 401 for everybody without the admin token', async () => {
  await listening({ behindProxy: true }, async (url, token, admin) => {
    expect((await get(url)).status).toBe(401);
    expect((await get(url, { authorization: `Bearer ${token}` })).status).toBe(401);
    expect((await get(url, { authorization: `Bearer ${admin}` })).status).toBe(200);
  });
});

const outside = Object.values(networkInterfaces())
  .flatMap((addresses) => addresses ?? [])
  .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

test.skipIf(outside === undefined)('from another address: 401, even by a name of this machine', async () => {
  const host = outside as string;
  await listening({ host, behindProxy: true }, async (url) => {
    expect((await get(url)).status).toBe(401);
    expect((await get(url, { host: 'localhost' })).status).toBe(401);
  });
});
