import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { proof } from '../../../proof.ts';
import { modernHeaders, modernRequest, post } from '../../json-mcp-client.ts';
import { openRawSocket, parseAnswers, writeHead } from '../raw-socket.ts';
import { startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

const bodyBytes = 1 << 20;
let ambit: WatchedAmbit;
let auth: Record<string, string>;

beforeAll(async () => {
  ambit = await startWatchedAmbit({ limits: { bodyBytes } });
  auth = { authorization: `Bearer ${ambit.token}`, ...modernHeaders('tools/call', 'echo') };
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

const call = JSON.stringify(modernRequest(7, 'tools/call', { name: 'echo', arguments: { text: 'hi' } }));

function send(body: string | Buffer, headers: Record<string, string> = {}) {
  return post(ambit.mcp('calm'), ambit.token, body, { ...modernHeaders('tools/call', 'echo'), ...headers });
}

function padded(bytes: number): string {
  return `${call}${' '.repeat(bytes - call.length)}`;
}

test('a body of exactly the limit is taken, one byte more is 413', async () => {
  expect((await send(padded(bodyBytes))).status).toBe(200);
  const said = await send(padded(bodyBytes + 1));
  expect([said.status, said.messages[0]?.error?.code]).toEqual([413, -32600]);
});

test.each(proof ? [2, 8, 64] : [8])('whoever sends %i times the limit still gets to read the 413', async (times) => {
  const said = await send(Buffer.alloc(bodyBytes * times, 'x'));
  expect(said.status).toBe(413);
});

test('an upload in chunks that never ends is stopped at the limit', async () => {
  const wire = await openRawSocket(ambit.url);
  await wire.say(writeHead('/mcp/calm', { ...auth, 'transfer-encoding': 'chunked' }));
  const chunk = `${(65536).toString(16)}\r\n${'x'.repeat(65536)}\r\n`;
  const closed = wire.untilClosed();
  const drained = () => new Promise<void>((resolve) => wire.socket.once('drain', resolve));
  const uploading = (async () => {
    for (let sent = 0; !wire.socket.destroyed; sent += chunk.length) {
      if (!wire.socket.write(chunk)) await Promise.race([drained(), closed]);
      // Far over the limit it goes on slowly, to spare the processor. In the proof it never slows down.
      if (!proof && sent > 8 * bodyBytes) await Promise.race([pause(20), closed]);
    }
  })();
  await ambit.expectMemoryWithin(100, uploading);
  expect(parseAnswers(await closed)[0]?.status).toBe(413);
});

test.each([
  ['100,000 open brackets', '['.repeat(100_000)],
  ['100,000 open brackets in the arguments', call.replace('"hi"', '['.repeat(100_000))],
  ['100,000 nested arrays', call.replace('"hi"', `${'['.repeat(100_000)}${']'.repeat(100_000)}`)],
  ['100,000 nested objects', call.replace('"hi"', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`)],
  ['100,000 objects nested in _meta', call.replace('"_meta":{', `"_meta":{"a":${'{"a":'.repeat(100_000)}`)],
])('%s are refused', async (_what, body) => {
  const said = await send(body);
  expect([said.status, said.messages[0]?.id]).toEqual([400, null]);
});

test.each([
  ['nothing', ''],
  ['blanks', ' \r\n\t '],
  ['half a message', call.slice(0, call.length / 2)],
  ['a message and a half', call + call.slice(0, 20)],
  ['two messages', `${call}\n${call}`],
  ['a byte order mark', `\ufeff${call}`],
  ['UTF-16', Buffer.from(call, 'utf16le')],
  ['a bare byte of a longer character', Buffer.from(call.replace('hi', '\u00e9'), 'latin1')],
  ['an overlong slash', Buffer.concat([Buffer.from(call.slice(0, -3)), Buffer.from([0xc0, 0xaf]), Buffer.from('"}}')])],
  ['a NUL in a string', call.replace('hi', 'h\0i')],
  ['gzip that says so', gzipSync(call)],
  ['random bytes', Buffer.from(Array.from({ length: 4096 }, (_, i) => (i * 7919) % 256))],
  ['a number', '5'],
  ['null', 'null'],
  ['an empty batch', '[]'],
  ['NaN', call.replace('"hi"', 'NaN')],
  ['a comment', `/* hi */${call}`],
  ['single quotes', call.replaceAll('"', "'")],
  ['a trailing comma', call.replace(/}$/, ',}')],
])('%s is no message: 400', async (_what, body) => {
  const said = await send(body);
  expect([said.status, said.messages[0]?.id]).toEqual([400, null]);
  // Whoever sends a batch is asked first for the transport session in which batches were agreed on.
  expect([-32700, -32600, -32000]).toContain(said.messages[0]?.error?.code);
});

test.each([
  'text/plain',
  'application/jsonp',
  'application/json-rpc',
  'multipart/form-data; boundary=x',
  'application/x-www-form-urlencoded',
  'text/html, application/json',
  'json',
])('a body of type %s is 415', async (type) => {
  const said = await send(call, { 'content-type': type });
  expect([said.status, said.messages[0]?.error?.code]).toEqual([415, -32600]);
});

test('a body without a type is 415', async () => {
  const wire = await openRawSocket(ambit.url);
  const lines = Object.entries({ host: '127.0.0.1', ...auth, 'content-length': call.length });
  await wire.say(`POST /mcp/calm HTTP/1.1\r\n${lines.map((line) => `${line.join(': ')}\r\n`).join('')}\r\n${call}`);
  expect(await wire.hears(/HTTP\/1\.1 415/)).toContain('Content-Type');
  wire.socket.destroy();
});

test('a Content-Length that is too short leaves no request behind', async () => {
  const wire = await openRawSocket(ambit.url);
  await wire.say(writeHead('/mcp/calm', { ...auth, 'content-length': 20 }) + call);
  const answers = parseAnswers(await wire.untilClosed());
  expect(answers.length).toBeGreaterThan(0);
  for (const { status } of answers) expect(status).toBe(400);
});

test('a Content-Length that is too long ends with the connection, without an answer', async () => {
  const wire = await openRawSocket(ambit.url);
  await wire.say(writeHead('/mcp/calm', { ...auth, 'content-length': call.length + 20 }) + call);
  wire.socket.end();
  expect(parseAnswers(await wire.untilClosed()).filter(({ status }) => status === 200)).toEqual([]);
});

test.each(['-1', '1e3', '0x10', '5, 5', '99999999999999999999', ' ', 'ten', '+5'])(
  'Content-Length %j is 400 or 413, and the connection ends',
  async (length) => {
    const wire = await openRawSocket(ambit.url);
    await wire.say(writeHead('/mcp/calm', { ...auth, 'content-length': length }) + call);
    const [answer] = parseAnswers(await wire.untilClosed());
    expect([400, 413]).toContain(answer?.status);
  },
);
