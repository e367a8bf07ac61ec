import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import { formatTextLine } from '../../../src/observability/log/stderr-log.ts';
import { createInProcessTransport } from '../../../src/public/create-gateway.ts';
import { ambitInProcess } from '../../cli/in-process.ts';
import { answerAs } from '../../fixtures/eras/answer-as.js';
import { createRawClient } from '../../gateway/raw-client.ts';
import { proof } from '../../proof.ts';
import { isAlive } from '../../sandbox/tagged-processes.ts';
import type { Era } from './scoped-gateway.ts';

const script = join(import.meta.dirname, '../../fixtures/eras/foreign-eras.js');
const folder = mkdtempSync(join(tmpdir(), 'ambit-foreign-'));
const dataDir = join(folder, 'data');
const configFile = join(folder, 'ambit.json');
const closing: (() => Promise<unknown>)[] = [];

/** Lists the process ids of a stdio server. */
const listStarts = (name: string) =>
  readFileSync(join(folder, `${name}.starts`), 'utf8')
    .trim()
    .split('\n');
const startsOf = (name: string) => listStarts(name).length;

/** A stdio server whose kind is read from a file at each start. */
function stdioServer(name: string) {
  const kindFile = join(folder, `${name}.kind`);
  return { command: process.execPath, args: [script, `@${kindFile}`, join(folder, `${name}.starts`)] };
}

/** A server over HTTP of a kind that can change. */
async function startHttpServer() {
  const own = { kind: '', state: {} as { executed?: number }, asked: [] as string[] };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.method !== 'POST') return response.writeHead(405).end();
    const message = JSON.parse(Buffer.concat(chunks).toString()) as { id?: number; method: string };
    own.asked.push(message.method);
    const answer = answerAs(own.kind, own.state, message);
    if (typeof answer !== 'object') return response.writeHead(message.id === undefined ? 202 : 422).end();
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  closing.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return Object.assign(own, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` });
}

const http = {
  'http-go-sdk': await startHttpServer(),
  'http-no-list': await startHttpServer(),
  'http-rmcp': await startHttpServer(),
  'http-becomes-typescript-v1': await startHttpServer(),
  'http-becomes-go-sdk-200': await startHttpServer(),
  'http-becomes-modern': await startHttpServer(),
};
const stdioNames = ['go-sdk', 'typescript-v1', 'rmcp', 'no-list', 'modern', 'becomes-modern', 'becomes-go-sdk'];

/** Sets the kinds. A server that changes is of the other era at first. */
function setKinds(isLater: boolean): void {
  const kindOf = (name: string) => {
    const kind = name.replace('http-', '');
    if (!kind.startsWith('becomes-')) return kind;
    const becomes = kind.replace('becomes-', '');
    return isLater ? becomes : becomes === 'modern' ? 'typescript-v1' : 'modern';
  };
  for (const name of stdioNames) writeFileSync(join(folder, `${name}.kind`), kindOf(name));
  for (const [name, server] of Object.entries(http)) Object.assign(server, { kind: kindOf(name), state: {} });
}

/** A gateway over the same data directory as the one before it, whose verdicts are from an hour ago. */
async function openForeignGateway(more: object = {}) {
  const servers = {
    ...Object.fromEntries(stdioNames.map((name) => [name, stdioServer(name)])),
    ...Object.fromEntries(Object.entries(http).map(([name, { url }]) => [name, { url }])),
  };
  writeFileSync(configFile, JSON.stringify({ version: 1, sessions: { defaultTrust: 'direct' }, servers, ...more }));
  const { config } = await loadConfig({ file: configFile });
  const lines: string[] = [];
  const info = (event: string, fields: Parameters<typeof formatTextLine>[1]) =>
    void lines.push(formatTextLine(event, fields));
  const gateway = await openGateway({ config, configFile, dataDir, log: { info, warn: info } });
  gateway.prepare();
  return {
    lines,
    gateway,
    async connect(server: string, era: Era, capabilities = {}) {
      const { record } = await gateway.openSession({});
      return createRawClient(createInProcessTransport(gateway, record.id, server), era, { capabilities });
    },
    async errorsOf(server: string) {
      return (await gateway.listServers()).filter(({ name }) => name === server).map(({ lastError }) => lastError);
    },
  };
}

function ageVerdicts(): void {
  const file = join(dataDir, 'eras.json');
  const stored = JSON.parse(readFileSync(file, 'utf8')) as [string, { until: number }][];
  writeFileSync(file, JSON.stringify(stored.map(([name, each]) => [name, { ...each, until: each.until - 3_600_000 }])));
}

afterAll(async () => {
  for (const close of closing) await close();
  rmSync(folder, { recursive: true });
});

describe('servers that Ambit does not know yet', () => {
  let own: Awaited<ReturnType<typeof openForeignGateway>>;
  beforeAll(async () => {
    setKinds(false);
    own = await openForeignGateway();
  });
  afterAll(() => own.gateway.close());

  test.each([
    ['go-sdk', 1, 'handshake'],
    ['typescript-v1', 1, 'handshake'],
    ['rmcp', 2, 'handshake'],
    ['no-list', 1, 'modern'],
    ['becomes-modern', 1, 'handshake'],
    ['becomes-go-sdk', 1, 'modern'],
  ])('a modern client calls the stdio server %s, which is started %i times', async (name, starts, era) => {
    const client = await own.connect(name, 'modern');
    expect([await client.call('echo'), await client.call('echo')]).toEqual(['call 1', 'call 2']);
    expect(startsOf(name)).toBe(starts);
    expect(await own.errorsOf(name)).toEqual([null]);
    const [found] = (await own.gateway.listServers()).filter((each) => each.name === name);
    expect(found?.era).toBe(era);
    expect(own.lines.filter((line) => line.includes(name) && /lost|failed|corrected/.test(line))).toEqual([]);
  });

  test('a handshake client of a modern server uses the process that refused its handshake', async () => {
    const client = await own.connect('modern', 'handshake');
    expect(await client.call('echo')).toBe('call 1');
    expect(startsOf('modern')).toBe(1);
    expect(await own.errorsOf('modern')).toEqual([null]);
  });

  test.each(Object.entries(http))('a modern client calls %s', async (name, server) => {
    const client = await own.connect(name, 'modern');
    expect([await client.call('echo'), await client.call('echo')]).toEqual(['call 1', 'call 2']);
    const [found] = (await own.gateway.listServers()).filter((each) => each.name === name);
    expect(found?.era).toBe(['modern', 'no-list'].includes(server.kind) ? 'modern' : 'handshake');
    expect(server.asked.filter((method) => method === 'server/discover').length).toBe(name === 'http-no-list' ? 2 : 1);
    expect(await own.errorsOf(name)).toEqual([null]);
  });

  test('handshake clients at /mcp see the tools of all servers', async () => {
    const client = await own.connect('*', 'handshake', { elicitation: {} });
    const tools = await client.tools();
    expect([...stdioNames, ...Object.keys(http)].filter((name) => !tools.includes(`${name}__echo`))).toEqual([]);
  });
});

describe('servers whose stored era is wrong', () => {
  let own: Awaited<ReturnType<typeof openForeignGateway>>;
  beforeAll(async () => {
    ageVerdicts();
    setKinds(true);
    own = await openForeignGateway();
  });
  afterAll(() => own.gateway.close());

  test.each([
    ['becomes-modern', 'handshake', 'modern'],
    ['becomes-go-sdk', 'modern', 'handshake'],
    ['http-becomes-modern', 'handshake', 'modern'],
    ['http-becomes-typescript-v1', 'modern', 'handshake'],
    ['http-becomes-go-sdk-200', 'modern', 'handshake'],
  ])(
    '%s: the first call of a modern client succeeds, is executed once, and corrects the era',
    async (name, was, now) => {
      const client = await own.connect(name, 'modern');
      expect(await client.call('echo')).toBe('call 1');
      const corrected = own.lines.filter((line) => line.includes('server era corrected') && line.includes(name));
      expect(corrected).toEqual([`server era corrected: server=${name} was=${was} now=${now}`]);
      expect(await client.call('echo')).toBe('call 2');
      expect(await own.errorsOf(name)).toEqual([null]);
      const stored = JSON.parse(readFileSync(join(dataDir, 'eras.json'), 'utf8')) as [string, { verdict: string }][];
      expect(new Map(stored).get(name)?.verdict).toBe(now);
    },
  );
});

test('a process that a refused request has left to the other era ends when it is idle', async () => {
  stdioNames.push('unused');
  writeFileSync(join(folder, 'unused.kind'), 'typescript-v1');
  const { gateway, connect } = await openForeignGateway({ processes: { idleSeconds: 1 } });
  closing.unshift(gateway.close);
  const client = await connect('unused', 'modern');
  expect((await client.request('logging/setLevel', { level: 'info' })).error?.code).toBe(-32601);
  const [pid = ''] = listStarts('unused');
  await expect.poll(() => isAlive(Number(pid)), { timeout: 10_000 }).toBe(false);
  expect(await client.call('echo')).toBe('call 1');
  expect(startsOf('unused')).toBe(2);
});

test('a session keeps its modern process when another process of the server is of the other era', async () => {
  stdioNames.push('mixed');
  const kindFile = join(folder, 'mixed.kind');
  writeFileSync(kindFile, 'modern');
  const { gateway, connect } = await openForeignGateway();
  closing.unshift(gateway.close);
  const first = await connect('mixed', 'modern');
  expect(await first.call('echo')).toBe('call 1');
  writeFileSync(kindFile, 'typescript-v1');
  const second = await connect('mixed', 'modern');
  expect([await second.call('echo'), await first.call('echo')]).toEqual(['call 1', 'call 2']);
  expect(startsOf('mixed')).toBe(2);
});

test.each([
  ['go-sdk', 'handshake'],
  ['http-go-sdk', 'handshake'],
  ['http-no-list', 'modern'],
])('ambit server check finds the era of %s', async (name, era) => {
  const args = ['server', 'check', name, '--config', configFile, '--data-dir', dataDir];
  const { stdout } = await ambitInProcess(args);
  expect(stdout).toMatch(new RegExp(`era +${era}\\ntools +1\\n`));
});

test.runIf(proof)('a server that answers no probe gets the handshake on the same process', async () => {
  stdioNames.push('silent');
  setKinds(true);
  const { gateway, connect } = await openForeignGateway({ processes: { startSeconds: 5 } });
  closing.unshift(gateway.close);
  const client = await connect('silent', 'modern');
  expect(await client.call('echo')).toBe('call 1');
  expect(startsOf('silent')).toBe(1);
});

test.runIf(proof)('a server that answers the probe late is modern from then on', async () => {
  stdioNames.push('late');
  setKinds(true);
  const { gateway, connect } = await openForeignGateway({ processes: { startSeconds: 5 } });
  closing.unshift(gateway.close);
  const client = await connect('late', 'modern');
  expect(await client.call('echo')).toBe('call 1');
  const [found] = (await gateway.listServers()).filter(({ name }) => name === 'late');
  expect(found?.era).toBe('modern');
});
