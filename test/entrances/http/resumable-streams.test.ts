import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Answer, createAnswer, createKeepAlive } from '../../../src/entrances/http/answer.ts';
import { createEventBuffer } from '../../../src/entrances/http/event-buffer.ts';
import { createRequestGroups } from '../../../src/entrances/http/request-groups.ts';
import {
  createResumableStreams,
  type EventSink,
  type ResumeLimits,
} from '../../../src/entrances/http/resumable-streams.ts';
import type { Session } from '../../../src/sessions/session.ts';
import type { Caller } from '../../../src/upstreams/links/caller.ts';
import { type Exchange, sendRaw } from '../../journeys/http-exchange.ts';
import { bearerHeader, connectHandshake, jsonHeaders, readAnswer, sendModern } from '../../journeys/raw-mcp-client.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../../journeys/start-embedded-ambit.ts';
import { startGoServer } from '../../upstreams/links/http/go-sdk-stateful.ts';
import { startPollingServer } from '../../upstreams/links/http/typescript-sdk-polling.ts';

/** Sends progress at once, and the answer when it is told to. */
const slowServer = `
import { createInterface } from 'node:readline';
const write = (message) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\\n');
const held = [];
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') {
    const serverInfo = { name: 'slow', version: '1' };
    write({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === 'tools/call' && params.name === 'slow') {
    held.push(id);
    write({ method: 'notifications/progress', params: { progressToken: params._meta.progressToken, progress: 1 } });
  } else if (method === 'tools/call') {
    for (const each of held.splice(0)) write({ id: each, result: { content: [{ type: 'text', text: 'done' }] } });
    write({ id, result: { content: [] } });
    if (params.name === 'announce') write({ method: 'notifications/message', params: { level: 'info', data: 'news' } });
  } else if (method === 'tools/list') {
    const properties = { region: { type: 'string', 'x-mcp-header': 'Region' }, note: { type: 'string' } };
    write({ id, result: { tools: [{ name: 'placed', inputSchema: { type: 'object', properties } }] } });
  } else if (id !== undefined) write({ id, error: { code: -32601, message: 'Method not found' } });
});`;

let folder: string;
let ambit: EmbeddedAmbit;
let polling: Awaited<ReturnType<typeof startPollingServer>>;
let go: Awaited<ReturnType<typeof startGoServer>>;
let url: string;
let token: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-resume-'));
  await writeFile(join(folder, 'slow.mjs'), slowServer);
  const slow = { command: process.execPath, args: [join(folder, 'slow.mjs')], era: 'handshake' };
  polling = await startPollingServer();
  go = await startGoServer();
  const remote = { polling: { url: polling.url, era: 'handshake' }, go: { url: go.url, era: 'handshake' } };
  ambit = await startEmbeddedAmbit({ servers: { slow, ...remote } });
  url = ambit.mcp('slow');
  ({ token } = await ambit.open());
});

afterAll(async () => {
  await ambit?.stop();
  polling?.close();
  go?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Reads the raw text of a stream until it contains a word. */
async function readUntil(response: Response, word: string): Promise<string> {
  const reader = response.body!.getReader();
  let text = '';
  while (!text.includes(word)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += Buffer.from(value).toString();
  }
  await reader.cancel();
  return text;
}

function resume(transportId: string, lastEventId: string, secret = token, at = url): Promise<Exchange> {
  const headers = { ...bearerHeader(secret), accept: 'text/event-stream', 'mcp-session-id': transportId };
  return sendRaw(at, { method: 'GET', headers: { ...headers, 'last-event-id': lastEventId } });
}

test.each(['2025-11-25', '2025-06-18'] as const)('a client of %s gets the rest of a broken call', async (version) => {
  const client = await connectHandshake(url, token, version);
  const body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":1}}}`;
  const headers = { ...jsonHeaders, ...bearerHeader(token), 'mcp-session-id': client.transportId };
  const text = await readUntil(await fetch(url, { method: 'POST', headers, body }), '"progress":1');
  expect(text.startsWith('retry: 1000\nid: ')).toBe(version === '2025-11-25');
  const lastId = [...text.matchAll(/^id: (\S+)$/gm)].at(-1)![1]!;
  // A plain answer stays plain JSON, and the broken call goes on.
  const released = await client.call('release', '{}');
  expect(released.headers['content-type']).toBe('application/json');
  await released.rest();

  const other = await connectHandshake(url, token, version);
  const stranger = await ambit.open();
  expect((await resume(other.transportId, lastId)).status).toBe(400);
  expect((await resume(client.transportId, lastId, stranger.token)).status).toBe(404);
  const wrongId = `a${lastId[1] === 'X' ? 'Y' : 'X'}${lastId.slice(2)}`;
  expect((await resume(client.transportId, wrongId)).status).toBe(400);
  const rest = await resume(client.transportId, lastId);
  expect(rest.status).toBe(200);
  expect((await rest.rest()).map((event) => JSON.parse(event))).toEqual([
    { jsonrpc: '2.0', id: 7, result: { content: [{ type: 'text', text: 'done' }] } },
  ]);
  await (await client.leave()).rest();
  expect((await resume(client.transportId, lastId)).status).toBe(404);
});

test('the standing stream continues with what was sent while the client was away', async () => {
  const client = await connectHandshake(url, token);
  const headers = { ...bearerHeader(token), accept: 'text/event-stream', 'mcp-session-id': client.transportId };
  const lastId = /^id: (\S+)$/m.exec(await readUntil(await fetch(url, { headers }), '\n\n'))![1]!;
  await (await client.call('announce', '{}')).rest();
  const response = await fetch(url, { headers: { ...headers, 'last-event-id': lastId } });
  expect(await readUntil(response, '"news"')).toContain('notifications/message');
  // The same id cannot open the stream at another address.
  expect((await resume(client.transportId, lastId, token, `${ambit.url}/mcp`)).status).toBe(404);
});

test('typescript-sdk: a stream that the server closes is closed for the client too, with its retry', async () => {
  const at = ambit.mcp('polling');
  const client = await connectHandshake(at, token);
  const body = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{}}}';
  const headers = { ...jsonHeaders, ...bearerHeader(token), 'mcp-session-id': client.transportId };
  let text = await (await fetch(at, { method: 'POST', headers, body })).text();
  for (let polls = 0; !text.includes('slow done') && polls < 10; polls++) {
    expect(text).toMatch(/^retry: 100\nid: \S+\ndata: \n\n$/);
    const lastId = /^id: (\S+)$/m.exec(text)![1]!;
    const further = { ...headers, accept: 'text/event-stream', 'last-event-id': lastId };
    text = await (await fetch(at, { headers: further })).text();
  }
  expect(text).toContain('slow done');
  // A client of an older revision waits on its first connection.
  const older = await connectHandshake(at, token, '2025-06-18');
  expect((await (await older.call('slow', '{}')).rest()).at(-1)).toContain('slow done');
});

test('typescript-sdk: a client that comes back at once gets the answer at once', async () => {
  const at = ambit.mcp('polling');
  const client = await connectHandshake(at, token);
  const body = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"patient","arguments":{}}}';
  const headers = { ...jsonHeaders, ...bearerHeader(token), 'mcp-session-id': client.transportId };
  const first = await (await fetch(at, { method: 'POST', headers, body })).text();
  expect(first).toMatch(/^retry: 60000\nid: \S+\ndata: \n\n$/);
  const lastId = /^id: (\S+)$/m.exec(first)![1]!;
  const further = { ...headers, accept: 'text/event-stream', 'last-event-id': lastId };
  expect(await (await fetch(at, { headers: further })).text()).toContain('patient done');
});

test('python-sdk: an event without data on a continued stream reaches the client', async () => {
  const at = ambit.mcp('polling');
  const client = await connectHandshake(at, token);
  const body = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"primes","arguments":{}}}';
  const headers = { ...jsonHeaders, ...bearerHeader(token), 'mcp-session-id': client.transportId };
  const first = await (await fetch(at, { method: 'POST', headers, body })).text();
  const lastId = /^id: (\S+)$/m.exec(first)![1]!;
  const further = { ...headers, accept: 'text/event-stream', 'last-event-id': lastId };
  const rest = await (await fetch(at, { headers: further })).text();
  expect(rest).toMatch(/^retry: 100\nid: \S+\ndata: \n\nid: \S+\nevent: message\ndata: .*primes done/);
});

test('go-sdk: the error for a stream that is closed without an event id waits until the client comes back', async () => {
  const at = ambit.mcp('go');
  const client = await connectHandshake(at, token);
  const body = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"leaves","arguments":{}}}';
  const headers = { ...jsonHeaders, ...bearerHeader(token), 'mcp-session-id': client.transportId };
  const text = await (await fetch(at, { method: 'POST', headers, body })).text();
  expect(text).toMatch(/^retry: 100\nid: \S+\ndata: \n\n$/);
  const rest = await resume(client.transportId, /^id: (\S+)$/m.exec(text)![1]!, token, at);
  expect((await rest.rest()).at(-1)).toContain('The call may have taken effect');
  const older = await connectHandshake(at, token, '2025-06-18');
  expect((await (await older.call('leaves', '{}')).rest()).at(-1)).toContain('The call may have taken effect');
});

test('go-sdk: a method that the server refuses in plain text is not found', async () => {
  const client = await connectHandshake(ambit.mcp('go'), token);
  const old = await client.post('{"jsonrpc":"2.0","id":7,"method":"no/such"}');
  expect([old.status, (await readAnswer(old)).error?.code]).toEqual([200, -32601]);
  const modern = await sendModern(ambit.mcp('go'), token, { method: 'no/such' });
  expect([modern.status, (await readAnswer(modern)).error?.code]).toEqual([404, -32601]);
});

test('go-sdk: a modern notification without an envelope is accepted', async () => {
  const body =
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"context canceled"}}';
  const sent = await sendModern(url, token, { method: 'notifications/cancelled' }, body);
  expect(sent.status).toBe(202);
  await sent.rest();
  const opened = await sendModern(url, token, { method: 'initialize' });
  expect([opened.status, (await readAnswer(opened)).error?.code]).toEqual([404, -32601]);
});

test('Mcp-Param headers are checked for a server that cannot see them', async () => {
  const call = async (headers: Record<string, string>, secret = token) => {
    const params = '"name":"placed","arguments":{"region":"Hello","note":"x"}';
    const sent = await sendModern(url, secret, { name: 'placed', params, headers });
    return [sent.status, (await readAnswer(sent)).error?.code];
  };
  // No client has listed the tools yet: a header makes Ambit ask the server.
  expect(await call({ 'mcp-param-region': 'Other' })).toEqual([400, -32020]);
  expect(await call({}, (await ambit.open()).token)).toEqual([400, -32020]);
  await readAnswer(sendModern(url, token, { method: 'tools/list' }));
  expect(await call({})).toEqual([400, -32020]);
  expect(await call({ 'mcp-param-region': 'Other' })).toEqual([400, -32020]);
  expect(await call({ 'mcp-param-region': '=?base64?SGVsbG8?=' })).toEqual([400, -32020]);
  expect(await call({ 'mcp-param-region': '=?base64?SGVsbG8=?=', 'mcp-param-unknown': 'x' })).toEqual([200, undefined]);
});

const limits: ResumeLimits = {
  ...{ eventsPerStream: 4, bytesPerStream: 1000, streamsPerClient: 3, bytesPerClient: 2000 },
  ...{ streamsPerUser: 5, bytesPerUser: 3000, streams: 5, bytes: 3000, awayMs: 60_000, sentMs: 60_000 },
};

function createSink() {
  const written: string[] = [];
  let ended = false;
  const sink: EventSink = {
    writeEvents: (bytes) => written.push(bytes.toString()) > 0,
    endEvents() {
      ended = true;
    },
    onDrain: (listener) => listener(),
    reportDelivery() {},
    destroy() {},
    onGone() {},
  };
  return { sink, text: () => written.join(''), isEnded: () => ended };
}

function createDeferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}

const createCaller = () => ({ version: '2025-11-25', isEnded: false, endListeners: new Set() }) as unknown as Caller;

function endCaller(caller: Caller): void {
  caller.isEnded = true;
  for (const listener of caller.endListeners) listener();
}
const session = { id: 's', trustLevel: 'direct', permissions: [] } as unknown as Session;

test('a quiet answer becomes a stream with a comment, and a block for a client that is away is not delivered', async () => {
  const keepAlive = createKeepAlive(3_600_000);
  const streams = createResumableStreams();
  const { promise: arrived, resolve: arrive } = createDeferred<Answer>();
  const server = createServer((request, response) => {
    const answer = createAnswer(request, response, { keepAlive, streams, groups: createRequestGroups(), refused() {} });
    const exchange = { era: 'handshake', message: { kind: 'request', id: '1' }, caller: createCaller(), session };
    answer.waitFor({ ...exchange, outgoing: { method: 'tools/call' } } as never);
    arrive(answer);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sent = fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const answer = await arrived;
  for (let ticks = 0; ticks < 3; ticks++) keepAlive.tick();
  expect(await readUntil(await sent, 'keep-alive')).toMatch(/^retry: 1000\nid: \S+\ndata: \n\n: keep-alive\n\n$/);
  await expect.poll(() => answer.channel.isAway?.()).toBe(true);
  const told: string[] = [];
  answer.reportDelivery([{ delivered: () => told.push('delivered'), lost: () => told.push('lost') }]);
  expect(told).toEqual(['lost']);
  keepAlive.close();
  server.close();
});

test('streams of clients that never come back stay within the limits', () => {
  const streams = createResumableStreams(limits);
  let lost = 0;
  for (let client = 0; client < 10; client++) {
    const caller = createCaller();
    for (let call = 0; call < 10; call++) {
      const { sink } = createSink();
      const stream = streams.open({ caller, session, requestIds: ['1'], sink, onLost: () => lost++ });
      stream.send(Buffer.from('{}'));
      if (call % 2 === 0) stream.detach(sink);
      else stream.finish(Buffer.from('{}'));
    }
  }
  const { streams: kept, away, bytes } = streams.count();
  expect([kept, away]).toEqual([limits.streams, limits.streams]);
  expect(bytes).toBeLessThanOrEqual(limits.bytes);
  expect(lost).toBeGreaterThan(40);
});

test('the streams of one user never push out those of another', () => {
  const streams = createResumableStreams({ ...limits, streamsPerUser: 4, bytesPerUser: 2000 });
  const openFor = (userId: string, isAway: boolean) => {
    const { sink, text } = createSink();
    const owner = { caller: createCaller(), session: { ...session, userId } };
    const stream = streams.open({ ...owner, requestIds: ['1'], sink, onLost() {} });
    for (let event = 0; event < 3; event++) stream.send(Buffer.alloc(300, 'x'));
    if (isAway) stream.detach(sink);
    return /^id: (\S+)$/m.exec(text())![1]!;
  };
  const own = openFor('ada', true);
  for (let client = 0; client < 20; client++) openFor('eve', client % 2 === 0);
  expect(streams.find(own)).toBeDefined();
  expect(streams.count().bytes).toBeLessThanOrEqual(limits.bytes);
});

test('nothing is kept for a client that has ended, whether it was away before or leaves later', () => {
  const streams = createResumableStreams(limits);
  const [caller, other] = [createCaller(), createCaller()];
  const lost: string[] = [];
  const open = (owner: Caller, name: string) => {
    const { sink } = createSink();
    const stream = streams.open({ caller: owner, session, requestIds: [name], sink, onLost: () => lost.push(name) });
    return { stream, sink };
  };
  const [away, finished, connected, kept] = [
    open(caller, 'away'),
    open(caller, 'finished'),
    open(caller, 'connected'),
    open(other, 'kept'),
  ];
  away.stream.detach(away.sink);
  finished.stream.finish(Buffer.from('{}'));
  kept.stream.detach(kept.sink);
  endCaller(caller);
  expect([lost, streams.count()]).toMatchObject([['away'], { streams: 2, away: 1 }]);
  connected.stream.detach(connected.sink);
  expect([lost, streams.count()]).toMatchObject([['away', 'connected'], { streams: 1, away: 1 }]);
});

test('a client that missed too much is told so, and a restricted session gets nothing', () => {
  const streams = createResumableStreams(limits);
  const caller = createCaller();
  const [first, second] = [createSink(), createSink()];
  let lost = 0;
  const stream = streams.open({ caller, session, requestIds: ['9'], sink: first.sink, onLost: () => lost++ });
  const id = /^id: (\S+)$/m.exec(first.text())![1]!;
  expect(stream.belongsTo({ caller, session: { ...session, trustLevel: 'sandboxed' } })).toBe(false);
  expect(stream.belongsTo({ caller: createCaller(), session })).toBe(false);
  stream.detach(first.sink);
  for (let event = 0; event < limits.eventsPerStream + 1; event++) stream.send(Buffer.from('{}'));
  expect([lost, streams.count().bytes]).toEqual([1, 0]);
  const found = streams.find(id)!;
  found.stream.continueOn(second.sink, found.after);
  expect(second.text()).toContain('"id":9,"error"');
  expect(second.isEnded()).toBe(true);
  expect(streams.find(id)).toBeUndefined();
});

test('a connection that broke before its stream could continue leaves the stream away, and its call is given up', () => {
  const streams = createResumableStreams({ ...limits, streamsPerClient: 1 });
  const caller = createCaller();
  const lost: string[] = [];
  const ids = ['1', '2', '3'].map((requestId) => {
    const first = createSink();
    const stream = streams.open({
      caller,
      session,
      requestIds: [requestId],
      sink: first.sink,
      onLost: () => lost.push(requestId),
    });
    stream.detach(first.sink);
    const id = /^id: (\S+)$/m.exec(first.text())![1]!;
    const found = streams.find(id)!;
    // The client has left while its request was checked.
    found.stream.continueOn({ ...createSink().sink, onGone: (listener) => listener() }, found.after);
    return id;
  });
  expect(lost).toEqual(['1', '2']);
  expect(streams.count()).toMatchObject({ streams: 1, away: 1 });
  expect(ids.map((id) => streams.find(id) !== undefined)).toEqual([false, false, true]);
});

test('an event in the buffer takes the memory that is counted for it, and no more', () => {
  let counted = 0;
  const buffer = createEventBuffer('s', (change) => {
    counted += change;
  });
  const event = buffer.add(Buffer.from('{}'), 'retry: 5\n');
  expect(String(event)).toBe('retry: 5\nid: s.0\nevent: message\ndata: {}\n\n');
  expect([event.buffer.byteLength, counted]).toEqual([event.length, event.length]);
});
