import { request } from 'node:http';
import { beforeAll, expect, test } from 'vitest';
import { modernHeaders, modernRequest, openClient, post, readOutcome } from '../../json-mcp-client.ts';
import { openRawSocket, parseAnswers, writeHead } from '../raw-socket.ts';
import { expectDiscreet, type WatchedAmbit } from '../start-watched-ambit.ts';

export function testHttpRequests(given: () => WatchedAmbit): void {
  let ambit: WatchedAmbit;
  let auth: Record<string, string>;

  beforeAll(() => {
    ambit = given();
    auth = { authorization: `Bearer ${ambit.token}`, ...modernHeaders('tools/call', 'echo') };
  });
  function callText(id: unknown, text = 'hi'): string {
    return JSON.stringify(modernRequest(id, 'tools/call', { name: 'echo', arguments: { text } }));
  }

  const call = callText(7);

  /** One request on a connection of its own; the status, or undefined where the connection was closed without one. */
  async function statusOf(bytes: string): Promise<number | undefined> {
    const wire = await openRawSocket(ambit.url);
    await wire.say(bytes);
    await wire.hears(/\r\n\r\n/).catch(() => {});
    wire.socket.destroy();
    const text = wire.heard();
    expectDiscreet(ambit, text);
    return parseAnswers(text)[0]?.status;
  }

  test.each(['PUT', 'PATCH', 'OPTIONS', 'HEAD', 'TRACE', 'PROPFIND', 'M-SEARCH'])('%s is 405', async (method) => {
    expect(await statusOf(writeHead('/mcp/calm', auth, method))).toBe(405);
  });

  test.each(['GET', 'DELETE'])('%s without a transport session is 405', async (method) => {
    expect(await statusOf(writeHead('/mcp/calm', auth, method))).toBe(405);
    expect(await statusOf(writeHead('/mcp/calm', { ...auth, 'mcp-session-id': 'x' }, method))).toBe(405);
  });

  test.each(['GET', 'DELETE'])('%s with an unknown transport session is 404', async (method) => {
    const headers = { authorization: `Bearer ${ambit.token}`, 'mcp-session-id': 'f'.repeat(32) };
    expect(await statusOf(writeHead('/mcp/calm', headers, method))).toBe(404);
  });

  test.each(['NONSENSE', 'post', 'CONNECT', ''])('the method %j is 400 or closes the connection', async (method) => {
    expect([400, undefined]).toContain(await statusOf(writeHead('/mcp/calm', auth, method)));
  });

  test.each([
    '/mcp/',
    '/mcp/calm/',
    '/mcp/calm/x',
    '/MCP/calm',
    '/mcp/CALM',
    '/mcp/..%2fcalm',
    '/mcp/../mcp/calm',
    '/mcp/calm%00',
    '//mcp/calm',
    '/mcp/__proto__',
    '/healthz/',
    '*',
    'http://elsewhere.example/mcp/calm',
    `/${'a'.repeat(8000)}`,
  ])('the path %s is 404', async (path) => {
    expect(await statusOf(writeHead(path, { ...auth, 'content-length': call.length }) + call)).toBe(404);
  });

  test('an unknown server is told in the protocol, not by the path', async () => {
    const said = await post(ambit.mcp('constructor'), ambit.token, call, modernHeaders('tools/call', 'echo'));
    expect([said.status, readOutcome(said)]).toEqual([200, '!SERVER_NOT_AVAILABLE']);
  });

  test.each([
    { host: 'evil.example' },
    { host: '127.0.0.1.evil.example' },
    { host: 'evil.example:80@127.0.0.1' },
    { host: '' },
    { host: '[::1' },
    { host: '[::1]evil.example' },
    { host: 'localhost evil.example' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://localhost.evil.example' },
    { origin: 'http://localhost:80@evil.example' },
    { origin: 'file://' },
    { origin: 'chrome-extension://localhost' },
    { origin: 'ftp://127.0.0.1' },
    { origin: '' },
    { origin: 'http://127.0.0.1, https://evil.example' },
  ])('%j is 403, also for those who hold a token', async (lines) => {
    const bytes = writeHead('/mcp/calm', { ...auth, ...lines, 'content-length': call.length }) + call;
    expect(await statusOf(bytes)).toBe(403);
    expect(await statusOf(writeHead('/healthz', lines, 'GET'))).toBe(403);
  });

  test('the hosts that the configuration names are answered, a port it names included', async () => {
    expect(await statusOf(writeHead('/healthz', { host: 'any-port.example:99' }, 'GET'))).toBe(200);
    expect(await statusOf(writeHead('/healthz', { host: 'One-Port.example:8443' }, 'GET'))).toBe(200);
    expect(await statusOf(writeHead('/healthz', { host: 'one-port.example:99' }, 'GET'))).toBe(403);
  });

  /** The status that each value of a header is answered with. */
  async function statuses(name: 'host' | 'origin', expected: Readonly<Record<string, number>>) {
    const found: Record<string, number | undefined> = {};
    for (const value of Object.keys(expected))
      found[value] = await statusOf(writeHead('/healthz', { [name]: value }, 'GET'));
    return found;
  }

  test('pages of listen.allowedOrigins may call, and pages of other origins may not', async () => {
    const expected = {
      'https://app.example': 200,
      'HTTPS://App.Example': 200,
      'https://dev.example:8443': 200,
      'http://app.example': 403,
      'https://app.example:8443': 403,
      'https://dev.example': 403,
      'https://sub.app.example': 403,
      'https://app.example.evil.example': 403,
    };
    expect(await statuses('origin', expected)).toEqual(expected);
  });

  test('a request to the host of listen.publicUrl is answered, and one to a similar host is not', async () => {
    const expected = {
      'gateway.example': 200,
      'Gateway.Example:443': 200,
      'sub.gateway.example': 403,
      'gateway.example.evil.example': 403,
      'app.example': 403,
    };
    expect(await statuses('host', expected)).toEqual(expected);
  });

  test('no Host at all is refused', async () => {
    expect(await statusOf('GET /healthz HTTP/1.1\r\n\r\n')).toBe(400);
    expect(await statusOf('GET /healthz HTTP/1.0\r\n\r\n')).toBe(403);
  });

  test('1000 header lines are served or refused as too many, never a failure', async () => {
    const few = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`x${i}`, i]));
    expect(await statusOf(writeHead('/mcp/calm', { ...few, ...auth, 'content-length': call.length }) + call)).toBe(200);
    const long = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`mcp-param-${i}`, 'v'.repeat(50)]));
    expect(await statusOf(writeHead('/mcp/calm', { ...long, ...auth, 'content-length': call.length }) + call)).toBe(
      431,
    );
  });

  test.each([
    ['a second Authorization', 'Authorization: Bearer nonsense'],
    ['a second Mcp-Method', 'Mcp-Method: tools/list'],
    ['a second Mcp-Name', 'Mcp-Name: other'],
    ['a second version', 'Mcp-Protocol-Version: 2025-11-25'],
  ])('%s neither fails nor takes the place of the first', async (_what, line) => {
    const bytes = writeHead('/mcp/calm', { ...auth, 'content-length': call.length }) + call;
    expect([200, 400]).toContain(await statusOf(bytes.replace('\r\n\r\n', `\r\n${line}\r\n\r\n`)));
  });

  test.each(['\n', '\r', '\0', '\x7f', 'a\nx: y', ': ', ' folded\r\n more'])('the header value %j', async (value) => {
    const status = await statusOf(
      writeHead('/mcp/calm', { 'mcp-param-x': value, ...auth, 'content-length': call.length }) + call,
    );
    expect([200, 400, undefined]).toContain(status);
  });

  test('what a body smuggles into an answer stays in the answer', async () => {
    const id = 'a\r\nSet-Cookie: x=1\r\n\r\nHTTP/1.1 200 OK\r\n\r\n';
    const wire = await openRawSocket(ambit.url);
    const body = callText(id, id).replace('"echo"', JSON.stringify('echo'));
    await wire.say(
      writeHead('/mcp/calm', { ...auth, 'content-length': Buffer.byteLength(body), connection: 'close' }) + body,
    );
    const answers = parseAnswers(await wire.untilClosed());
    expect(answers.map(({ status }) => status)).toEqual([200]);
    expect(wire.heard()).not.toMatch(/^set-cookie/im);
    expect((JSON.parse(answers[0]?.body ?? '') as { id: unknown }).id).toBe(id);
  });

  test('200 pipelined requests are answered, each once, in order', async () => {
    const wire = await openRawSocket(ambit.url);
    const bodies = Array.from({ length: 200 }, (_, id) => callText(id));
    const all = bodies.map((body) => writeHead('/mcp/calm', { ...auth, 'content-length': body.length }) + body);
    await wire.say(all.join('') + writeHead('/healthz', { connection: 'close' }, 'GET'));
    const answers = parseAnswers(await wire.untilClosed());
    expect(answers.pop()?.body).toBe('{"status":"ok"}');
    expect(answers.map(({ body }) => (JSON.parse(body) as { id: number }).id)).toEqual(bodies.map((_, id) => id));
  });

  const hidden = writeHead('/mcp/calm', { 'content-length': 0 }, 'GET');

  test.each([
    ['Content-Length and chunked', { 'content-length': 4, 'transfer-encoding': 'chunked' }, `0\r\n\r\n${hidden}`],
    ['chunked and Content-Length', { 'transfer-encoding': 'chunked', 'content-length': 0 }, hidden],
    ['an unknown coding last', { 'transfer-encoding': 'chunked, identity' }, `0\r\n\r\n${hidden}`],
    ['a misspelt coding', { 'transfer-encoding': 'xchunked' }, `0\r\n\r\n${hidden}`],
    ['chunked twice', { 'transfer-encoding': 'chunked, chunked' }, `0\r\n\r\n${hidden}`],
    ['a chunk size with a sign', { 'transfer-encoding': 'chunked' }, `+1\r\nx\r\n0\r\n\r\n`],
    ['a chunk size out of range', { 'transfer-encoding': 'chunked' }, `ffffffffffffffffff\r\nx\r\n`],
    ['a chunk longer than its size', { 'transfer-encoding': 'chunked' }, `1\r\nxyz\r\n0\r\n\r\n`],
  ])('smuggling by %s: at most refusals, and the connection ends', async (_what, lines, body) => {
    const wire = await openRawSocket(ambit.url);
    await wire.say(writeHead('/mcp/calm', { ...auth, ...lines } as Record<string, string>) + body);
    const answers = parseAnswers(await wire.untilClosed());
    for (const { status } of answers) expect(status).toBe(400);
    expect(answers.length).toBeLessThan(2);
  });

  test('two lengths that differ are refused', async () => {
    const bytes = writeHead('/mcp/calm', { ...auth, 'content-length': 0 });
    expect(await statusOf(bytes.replace('\r\n\r\n', `\r\nContent-Length: ${call.length}\r\n\r\n`) + call)).toBe(400);
  });

  test.each([
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/3.7', 'GET /healthz HTTP/3.7\r\nhost: 127.0.0.1\r\n\r\n'],
    ['SSH', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['blank lines', `${'\r\n'.repeat(10_000)}x\r\n\r\n`],
  ])('%s on this port is 400', async (_what, bytes) => {
    expect(await statusOf(bytes)).toBe(400);
  });

  test('an upgrade that nobody offered is served as the request it is', async () => {
    expect(await statusOf(writeHead('/healthz', { connection: 'upgrade', upgrade: 'websocket' }, 'GET'))).toBe(200);
  });

  test('an expectation that cannot be met is 417', async () => {
    expect(await statusOf(writeHead('/mcp/calm', { ...auth, expect: 'miracles', 'content-length': 0 }))).toBe(417);
  });

  test('100-continue is honoured before a body is sent', async () => {
    const said = await new Promise<number | undefined>((resolve, reject) => {
      const headers = {
        ...auth,
        'content-type': 'application/json',
        'content-length': call.length,
        expect: '100-continue',
      };
      const sending = request(ambit.mcp('calm'), { method: 'POST', headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sending.on('continue', () => sending.end(call));
      sending.on('error', reject);
      sending.flushHeaders();
    });
    expect(said).toBe(200);
  });

  test('a transport session under another server, or with another token, does not exist', async () => {
    const client = await openClient(ambit.mcp('calm'), ambit.token);
    const other = await ambit.session();
    const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    expect((await post(ambit.mcp('calm'), other.token, ping, client.headers)).status).toBe(404);
    expect((await post(ambit.mcp('calm'), 'nonsense', ping, client.headers)).status).toBe(401);
  });
}
