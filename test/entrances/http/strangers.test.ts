import { EventEmitter } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { request, type ServerResponse } from 'node:http';
import { connect, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createConnections, limitConnections } from '../../../src/entrances/http/connections.ts';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { networkOf } from '../../../src/lib/net/host-and-port.ts';
import { readJournal } from '../../gateway/shared-data.ts';
import { openRawSocket, type RawSocket, writeHead } from '../../journeys/hostile/raw-socket.ts';
import { callModern, modernHeaders, modernRequest, readOutcome } from '../../journeys/json-mcp-client.ts';

const bodyBytes = 64 * 1024;
const calm = join(import.meta.dirname, '../../fixtures/hostile/well-behaved.js');
let folder: string;
let gateway: EmbeddedGateway;
let url: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-strangers-'));
  gateway = await createGateway({
    // 16 for strangers of one address, and 16 for one credential.
    config: {
      version: 1,
      listen: { maxConnections: 32 },
      limits: { bodyBytes, messageBytes: bodyBytes },
      sessions: { defaultTrust: 'direct' },
      servers: { calm: { command: process.execPath, args: [calm] } },
    },
    dataDir: join(folder, 'data'),
    log: { info() {}, warn() {} },
  });
  url = (await gateway.listen({ port: 0 })).url;
});
afterAll(async () => {
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

const address = () => `${url}/mcp/calm`;
const bearer = (token: string) => ({ authorization: `Bearer ${token}`, ...modernHeaders('tools/call', 'echo') });
/** The bytes of a call on a connection of its own. */
function composeCall(token: string, name: string, args: object, meta: object = {}): string {
  const body = JSON.stringify(modernRequest(1, 'tools/call', { name, arguments: args, ...meta }));
  return writeHead('/mcp/calm', { ...bearer(token), 'mcp-name': name, 'content-length': body.length }) + body;
}
const echo = async (token: string, text: string) => readOutcome(await callModern(address(), token, 'echo', { text }));

describe('S7: without a credential', () => {
  test.each([
    ['none', {}],
    ['one that does not verify', { authorization: 'Bearer nonsense' }],
  ])('with %s, the answer comes before the body', async (_what, lines) => {
    const wire = await openRawSocket(url);
    await wire.say(writeHead('/mcp/calm', { ...lines, 'content-length': bodyBytes }));
    expect(await wire.hears(/UNAUTHENTICATED/)).toMatch(/^HTTP\/1\.1 401/);
    wire.reset();
  });

  test('nobody is asked for a body by 100 Continue', async () => {
    const wire = await openRawSocket(url);
    await wire.say(writeHead('/mcp/calm', { 'content-length': 1000, expect: '100-continue' }));
    expect(await wire.untilClosed()).toMatch(/^HTTP\/1\.1 401[\s\S]*connection: close/i);
  });

  test('the connection ends with the answer, and not before all of it is read', async () => {
    const wire = await openRawSocket(url);
    await wire.say(writeHead('/mcp/calm', { 'content-length': 1000 }));
    await wire.hears(/^HTTP\/1\.1 401[\s\S]*connection: close/i);
    // The body, and another request that nobody answers any more.
    await wire.say(`${' '.repeat(1000)}${writeHead('/mcp/calm', { 'content-length': 0 })}`);
    expect((await wire.untilClosed()).match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  test('a client that sends a long body all the same gets to read its answer', async () => {
    const said = await new Promise<string>((resolve, reject) => {
      const headers = { 'content-type': 'application/json' };
      const sending = request(address(), { method: 'POST', headers, agent: false }, (response) => {
        resolve(text(response).then((words) => `${response.statusCode} ${words}`));
      });
      sending.on('error', reject);
      sending.end(Buffer.alloc(8 << 20, 'x'));
    });
    expect(said).toMatch(/^401 .*UNAUTHENTICATED/);
  });

  test.each([
    ['of any kind', {}],
    ['that expect something unknown', { expect: 'x' }],
  ])('more than 4 requests at once %s on one connection close it', async (_kind, lines) => {
    const wire = await openRawSocket(url);
    await wire.say(writeHead('/mcp/calm', { 'content-length': 0, ...lines }).repeat(200));
    expect((await wire.untilClosed()).match(/HTTP\/1\.1 4/g)?.length ?? 0).toBeLessThan(5);
  });

  test('the oldest connection makes room, and whoever shows a credential keeps theirs', async () => {
    const { token } = await gateway.createSession();
    const call = composeCall(token, 'echo', { text: 'kept' });
    const kept = await openRawSocket(url);
    await kept.say(call);
    await kept.hears(/"kept"/);
    const first = await openRawSocket(url);
    const others: RawSocket[] = [];
    for (let index = 0; index < 16; index++) others.push(await openRawSocket(url));
    expect(await first.untilClosed()).toBe('');
    // The others are there still, and so is the one with a credential, idle as it is.
    const calling = others.slice(0, 2);
    await Promise.all([...calling, kept].map((wire) => wire.say(call)));
    for (const wire of calling) await wire.hears(/"kept"/);
    await expect.poll(() => kept.heard().match(/"kept"/g)?.length).toBe(2);
    for (const wire of [...others, kept]) wire.reset();
  });

  test('in all there are no more connections than configured, from however many addresses', async () => {
    const opened: Socket[] = [];
    const closed: Socket[] = [];
    for (let index = 0; index < 40; index++) {
      const socket = connect({ port: Number(new URL(url).port), localAddress: `127.0.0.${10 + index}` });
      socket.on('error', () => {}).on('close', () => closed.push(socket));
      await new Promise((resolve) => socket.once('connect', resolve));
      opened.push(socket);
    }
    await expect.poll(() => closed.length).toBeGreaterThanOrEqual(8);
    expect(closed).toEqual(opened.slice(0, closed.length));
    for (const socket of opened) socket.destroy();
  });
});

describe('S7: one credential', () => {
  test('has half of the connections: beyond, its oldest idle one is closed, and where none is idle it is refused', async () => {
    const [busy, other] = [await gateway.createSession(), await gateway.createSession()];
    const wires: RawSocket[] = [];
    for (let index = 0; index < 16; index++) wires.push(await openBusyWire(busy.token));
    const refused = await callModern(address(), busy.token, 'echo');
    expect([refused.status, readOutcome(refused)]).toEqual([503, '!OVERLOADED']);
    expect(await echo(other.token, 'hi')).toBe('hi');
    for (const wire of wires) wire.reset();
    await expect.poll(() => echo(busy.token, 'hi')).toBe('hi');
  });

  /** A connection with an answer that never ends, so that all others on it wait behind that one. */
  async function openBusyWire(token: string): Promise<RawSocket> {
    const wire = await openRawSocket(url);
    await wire.say(composeCall(token, 'wait', {}, { _meta: { progressToken: 1 } }));
    await wire.hears(/notifications\/progress/);
    return wire;
  }

  test('has no bytes left behind by connections that broke with several requests under way', async () => {
    const busy = await gateway.createSession();
    for (let index = 0; index < 9; index++) {
      const wire = await openBusyWire(busy.token);
      await wire.say(writeHead('/mcp/calm', { ...bearer(busy.token), 'content-length': bodyBytes }));
      await wire.say(' '.repeat(bodyBytes - 1));
      await callModern(address(), busy.token, 'echo', { text: 'read meanwhile' });
      wire.reset();
    }
    const call = () => callModern(address(), busy.token, 'echo', { text: 'x'.repeat(bodyBytes / 2) });
    await expect.poll(async () => (await call()).status).toBe(200);
  });

  test('has half of the bytes that are kept of answers', async () => {
    const [busy, other] = [await gateway.createSession(), await gateway.createSession()];
    const long = { text: 'x'.repeat(45_000) };
    const wires: RawSocket[] = [];
    for (let index = 0; index < 12; index++) {
      const wire = await openBusyWire(busy.token);
      wires.push(wire);
      await wire.say(composeCall(busy.token, 'echo', long));
      await callModern(address(), busy.token, 'echo', { text: 'answered meanwhile' });
    }
    const call = (token: string) => callModern(address(), token, 'echo', long);
    await expect.poll(async () => (await call(busy.token)).status).toBe(503);
    const refused = await call(busy.token);
    expect(JSON.stringify(refused)).toContain('answers');
    expect((await call(other.token)).status).toBe(200);
    for (const wire of wires) wire.reset();
    await expect.poll(async () => (await call(busy.token)).status).toBe(200);
  });

  test('has 256 requests on one connection that wait for their answers', () => {
    const connections = createConnections({ total: 8, perAddress: 8, perCredential: 8 }, () => {});
    const socket = new Socket();
    const ask = () => connections.startRequest(socket, new EventEmitter() as ServerResponse);
    connections.add(socket);
    connections.assignCredential(socket, 'session');
    expect(Array.from({ length: 256 }, ask)).not.toContain(false);
    expect([ask(), socket.destroyed]).toEqual([false, true]);
  });

  test('has half of the bytes that are kept of bodies', async () => {
    const [busy, other] = [await gateway.createSession(), await gateway.createSession()];
    const half = ' '.repeat(bodyBytes - 1);
    const wires: RawSocket[] = [];
    for (let index = 0; index < 9; index++) {
      const wire = await openRawSocket(url);
      await wire.say(writeHead('/mcp/calm', { ...bearer(busy.token), 'content-length': bodyBytes }) + half);
      wires.push(wire);
    }
    const refused = await Promise.any(wires.map((wire) => wire.hears(/HTTP\/1\.1 503/)));
    expect(refused).toMatch(/retry-after: 1[\s\S]*OVERLOADED/i);
    expect(wires.filter((wire) => wire.heard() !== '')).toHaveLength(1);
    expect(await echo(other.token, 'x'.repeat(1000))).toHaveLength(1000);
    for (const wire of wires) wire.reset();
  });
});

test('S7: the lines about strangers are few, and the others are counted', async () => {
  for (let index = 0; index < 30; index++) expect((await fetch(`${url}/mcp`, { method: 'POST' })).status).toBe(401);
  await gateway.close();
  const refusals = readJournal(join(folder, 'data')).filter(({ event }) => event === 'credential');
  expect(refusals.filter(({ further }) => further === undefined).length).toBeLessThanOrEqual(11);
  expect(refusals.reduce((sum, { further = 1 }) => sum + Number(further), 0)).toBeGreaterThanOrEqual(30);
});

test('S7: the usual number of connections fits 1,024 descriptors, and fewer descriptors mean fewer connections', () => {
  expect(limitConnections(512, 1024)).toBe(512);
  expect(limitConnections(512, 512)).toBe(128);
  expect(limitConnections(5000, Infinity)).toBe(5000);
});

test('S7: an address of IPv6 counts by its first half', () => {
  expect(['2001:db8:1:2:3::9', '2001:db8:1:2::1', '::ffff:192.0.2.1', '::1', 'fe80::1%eth0'].map(networkOf)).toEqual([
    ...['2001:db8:1:2', '2001:db8:1:2', '192.0.2.1', '0:0:0:0', 'fe80:0:0:0'],
  ]);
});
