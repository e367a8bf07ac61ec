import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findSample } from '../../observability/metrics/read-samples.ts';
import { callModern, connectHandshake, readToolText } from '../raw-mcp-client.ts';
import { type ObservedGateway, startObservedGateway } from './start-observed-gateway.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parent = `00-${traceId}-b7ad6b7169203331-01`;
const renewed = new RegExp(`^00-${traceId}-(?!b7ad6b7169203331)[0-9a-f]{16}-01$`);
const inMeta = { meta: `"traceparent":"${parent}","tracestate":"vendor=1"` };
const inHeader = { headers: { traceparent: parent, tracestate: 'vendor=1' } };

let on: ObservedGateway;
let token: string;
beforeAll(async () => {
  const leaky = join(import.meta.dirname, 'leaky-server.js');
  on = await startObservedGateway({ servers: { leaky: { command: process.execPath, args: [leaky] } } });
  token = (await on.gateway.createSession({ userId: 'ada' })).token;
});
afterAll(async () => {
  await on.closed();
});

/** `_meta` as the server received it. */
function metaOf(raw: string): Record<string, unknown> {
  const { params } = JSON.parse(raw) as { params: { _meta?: Record<string, unknown> } };
  return params._meta ?? {};
}

const modern = ['pipe', 'old', 'new', 'plain', 'web'];

test.each([...modern.map((server) => `mcp/${server}`)])(
  'L8: in `_meta`, to /%s: the same trace, a span of ours',
  async (path) => {
    const meta = metaOf(await readToolText(callModern(`${on.url}/${path}`, token, 'echo', '{}', inMeta)));
    expect(meta['traceparent']).toMatch(renewed);
    expect(meta['tracestate']).toBe('vendor=1');
  },
);

test.each(['pipe', 'old', 'new', 'plain'])('L8: in a header, to %s over stdio: goes on in `_meta`', async (server) => {
  const meta = metaOf(await readToolText(callModern(`${on.url}/mcp/${server}`, token, 'echo', '{}', inHeader)));
  expect(meta['traceparent']).toMatch(renewed);
});

test('L8: in a header, to a server over HTTP: goes on in a header, and the message is left alone', async () => {
  const raw = await readToolText(callModern(`${on.url}/mcp/web`, token, 'echo', '{"mark":"header"}', inHeader));
  expect(metaOf(raw)).not.toHaveProperty('traceparent');
  const { headers } = (await on.overHttp()).find(({ body }) => body === raw) as { headers: string[] };
  const sent = (name: string) => headers[headers.findIndex((each) => each.toLowerCase() === name) + 1];
  expect(sent('traceparent')).toMatch(renewed);
  expect(sent('tracestate')).toBe('vendor=1');
});

test('L8: a client of the handshake era, in front of servers of both', async () => {
  for (const server of ['pipe', 'new']) {
    const client = await connectHandshake(`${on.url}/mcp/${server}`, token);
    expect(metaOf(await readToolText(client.call('echo', '{}', inMeta)))['traceparent']).toMatch(renewed);
  }
});

test('L8: at the address of all servers, in both eras, in `_meta` and in a header', async () => {
  const { traceparent } = inHeader.headers;
  const all = `${on.url}/mcp`;
  const client = await connectHandshake(all, token);
  const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"leaky__leak","arguments":{}}}`;
  const told = await Promise.all([
    readToolText(callModern(all, token, 'leaky__leak', '{}', inMeta)),
    readToolText(callModern(all, token, 'leaky__leak', '{}', inHeader)),
    readToolText(client.call('leaky__leak', '{}', inMeta)),
    readToolText(client.post(call, { traceparent })),
  ]);
  for (const meta of told) expect((JSON.parse(meta) as Record<string, unknown>)['traceparent']).toMatch(renewed);
});

test('P15: a request that tells its server nothing about the session is counted, and no other', async () => {
  const untold = async (server: string) =>
    findSample(await on.metrics(), 'ambit_calls_without_context_total', { server }) ?? 0;
  const before = await untold('plain');
  await readToolText(callModern(`${on.url}/mcp/plain`, token, 'echo', '{}'));
  await readToolText(callModern(`${on.url}/mcp/pipe`, token, 'echo', '{}'));
  expect([await untold('plain'), await untold('pipe')]).toEqual([before + 1, 0]);
});

test('L8: an unreadable trace is not passed on', async () => {
  const raws = await Promise.all([
    readToolText(
      callModern(`${on.url}/mcp/pipe`, token, 'echo', '{}', { meta: '"traceparent":"00-x","tracestate":"a=1"' }),
    ),
    readToolText(
      callModern(`${on.url}/mcp/pipe`, token, 'echo', '{}', { headers: { traceparent: parent.toUpperCase() } }),
    ),
    readToolText(callModern(`${on.url}/mcp/web`, token, 'echo', '{}', { headers: { traceparent: `${parent}, x` } })),
  ]);
  for (const raw of raws) expect(metaOf(raw)).not.toHaveProperty('traceparent');
  expect(metaOf(raws[0] as string)).not.toHaveProperty('tracestate');
  const bad = (await on.overHttp()).find(({ body }) => body === raws[2]) as { headers: string[] };
  expect(bad.headers.map((name) => name.toLowerCase())).not.toContain('traceparent');
});

test('without a trace only the id of a message changes', async () => {
  const args = '{ "big": 12345678901234567890,\t"z":1,  "a" : 1.0 }';
  const raw = await readToolText(callModern(`${on.url}/mcp/plain`, token, 'echo', args));
  expect(raw).toContain(args);
  expect(raw).not.toContain('traceparent');
});

test('L8: journal and log name the trace beside the exchange, and the process that served it', async () => {
  const own = await startObservedGateway();
  const { id, token: bearer } = await own.gateway.createSession({ userId: 'ada' });
  const meta = metaOf(await readToolText(callModern(`${own.url}/mcp/pipe`, bearer, 'echo', '{}', inMeta)));
  const entries = (await own.closed())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  const call = entries.find(({ kind, method }) => kind === 'call' && method === 'tools/call');
  const started = entries.find(({ event, server }) => event === 'started' && server === 'pipe');
  expect(call).toMatchObject({ traceId, spanId: (meta['traceparent'] as string).slice(36, 52), pid: started?.['pid'] });
  expect(started?.['pid']).toEqual(expect.any(Number));
  const context = meta['ambit/context'] as { readonly correlationId: string };
  expect(call?.['id']).toBe(context.correlationId);
  const [line] = own.lines
    .map((each) => each.line)
    .filter((each) => each.startsWith('call: server=pipe method=tools/call'));
  expect(line).toContain(` pid=${started?.['pid']} session=${id.slice(0, 8)} `);
  expect(line).toContain(` correlation=${context.correlationId.slice(0, 8)} trace=${traceId}`);
  expect(own.lines.map((each) => each.line)).toContainEqual(
    expect.stringMatching(`^server started: server=pipe session=${id.slice(0, 8)} pid=${started?.['pid']} ms=\\d+$`),
  );
});
