import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import { connect, createServer as createRawServer, type Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ResolveHost } from '../../../src/lib/net/host-and-port.ts';
import { type Egress, type EgressRefusal, openEgress } from '../../../src/sandbox/egress/open-egress.ts';
import type { ProcessLaunch } from '../../../src/sandbox/runner.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { createSandboxHarness, type SandboxHarness } from '../bwrap/sandbox-harness.ts';

/** Longer than the address of a socket may be. */
const folder = mkdtempSync(join(tmpdir(), `ambit-egress-${'long'.repeat(30)}-`));
const heard: { readonly url: string | undefined; readonly headers: IncomingHttpHeaders }[] = [];
const web = createServer(async (asked, answer) => {
  heard.push({ url: asked.url, headers: asked.headers });
  answer.end(`${asked.method} ${asked.url} ${await text(asked)}`);
});
let port = 0;
let egress: Egress | undefined;
let refused: EgressRefusal[] = [];

beforeAll(async () => {
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  ({ port } = web.address() as { port: number });
});

afterEach(async () => {
  await egress?.close();
  expect(readdirSync(folder)).toEqual([]);
  refused = [];
});

afterAll(() => {
  web.close();
  rmSync(folder, { recursive: true });
});

async function open(allowed: readonly string[], resolve?: ResolveHost): Promise<Egress> {
  const onRefused = (refusal: EgressRefusal) => refused.push(refusal);
  egress = await openEgress({ allowed, folder, onRefused, ...(resolve === undefined ? {} : { resolve }) });
  return egress;
}

/** A socket's address is too long by its path, and can be had by a handle, as in a sandbox by another path. */
async function dialled(): Promise<Socket> {
  const handle = openSync(folder, 'r');
  const socket = connect({ path: `/proc/self/fd/${handle}/egress.sock`, allowHalfOpen: true });
  await once(socket, 'connect');
  closeSync(handle);
  return socket.on('error', () => {});
}

async function say(words: string): Promise<string> {
  const socket = await dialled();
  socket.end(words);
  return text(socket);
}

const tunnelled = (to: string, path = '/') =>
  say(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\nGET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);

describe('the proxy of a process', () => {
  test('carries a connection to what is listed', async () => {
    const { allowed } = await open([`127.0.0.1:${port}`]);
    const answer = await tunnelled(`127.0.0.1:${port}`, '/through');
    expect(answer).toMatch(/^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200 OK/);
    expect(answer).toContain('GET /through');
    expect([...allowed]).toEqual([[`127.0.0.1:${port}`, 1]]);
    expect(refused).toEqual([]);
  });

  test('S1: reaches a registry that is not public only where that is said, and by the proxy of the user', async () => {
    const onRefused = (refusal: EgressRefusal) => refused.push(refusal);
    const resolve = async () => ['127.0.0.1'];
    const allowed = [`registry.example:${port}`];
    await open(allowed, resolve);
    expect(await tunnelled(`registry.example:${port}`)).toMatch(/^HTTP\/1\.1 403 /);
    await egress?.close();
    egress = await openEgress({ allowed, folder, onRefused, resolve, allowPrivate: true });
    expect(await tunnelled(`registry.example:${port}`, '/direct')).toContain('GET /direct');
    expect(await tunnelled(`other.example:${port}`)).toMatch(/^HTTP\/1\.1 403 .*not listed/s);
    await egress.close();

    const asked: string[] = [];
    const proxy = createServer().on('connect', (request, client: Socket) => {
      asked.push(`${request.url} ${request.headers['proxy-authorization']}`);
      const onward = connect(port, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
      client.pipe(onward).pipe(client);
    });
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    const url = new URL(`http://user:p%20w@127.0.0.1:${(proxy.address() as { port: number }).port}`);
    const nowhere: ResolveHost = () => Promise.reject(new Error('no names here'));
    egress = await openEgress({ allowed, folder, onRefused, resolve: nowhere, proxyFor: () => url });
    expect(await tunnelled(`registry.example:${port}`, '/by-proxy')).toContain('GET /by-proxy');
    expect(await tunnelled(`other.example:${port}`)).toMatch(/^HTTP\/1\.1 403 .*not listed/s);
    expect(asked).toEqual([`registry.example:${port} Basic ${Buffer.from('user:p w').toString('base64')}`]);
    proxy.close();
  });

  test('relays a plain request, under the checked name', async () => {
    await open([`localhost:${port}`]);
    const socket = await dialled();
    const asking = request({
      createConnection: () => socket,
      method: 'POST',
      path: `http://LocalHost:${port}/x?y=1`,
      headers: {
        Host: 'other.example',
        'Proxy-Authorization': 'Basic x',
        Connection: 'close, X-Mine',
        'X-Mine': '1',
        'X-Kept': '2',
      },
    });
    asking.end('body');
    const [answer] = await once(asking, 'response');
    expect(await text(answer)).toBe('POST /x?y=1 body');
    const { headers } = heard.at(-1) ?? {};
    expect(headers).toMatchObject({ host: `localhost:${port}`, 'x-kept': '2' });
    expect(headers).not.toHaveProperty('proxy-authorization');
    expect(headers).not.toHaveProperty('x-mine');
  });

  test.each([
    ['another host', 'example.org:443', 'not listed'],
    ['another port', '127.0.0.1:1', 'not listed'],
    ['the metadata of a cloud', '169.254.169.254:80', 'not listed'],
    ['a name in front of an @', 'a.example:443@127.0.0.1:22', 'not a host and a port'],
    ['another spelling of an address', '0x7f.1:443', 'not a host and a port'],
    ['no port', 'a.example', 'not a host and a port'],
  ])('refuses %s, and says so', async (_, to, reason) => {
    await open(['a.example:443'], async () => ['127.0.0.1']);
    const answer = await tunnelled(to);
    expect(answer).toMatch(/^HTTP\/1\.1 (?:403|400) /);
    expect(refused).toEqual([{ to, reason }]);
  });

  test.each([
    ['http://a.example:443@127.0.0.1:22/', '127.0.0.1'],
    ['http://127.0.0.1\\@a.example:443/', 'a.example'],
    ['https://a.example:443/', 'a.example'],
    ['/etc/passwd', 'a.example:443'],
    ['http://169.254.169.254/latest/meta-data/', 'a.example:443'],
    ['ftp://a.example:443/', 'a.example:443'],
  ])('refuses the plain request for %s', async (url, host) => {
    await open(['a.example:443', `127.0.0.1:${port}`]);
    const answer = await say(`GET ${url} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(refused).toEqual([
      { to: expect.any(String), reason: expect.stringMatching(/^(?:not |the request cannot be read)/) },
    ]);
  });

  test('connects to the checked address, even if the name resolves differently later', async () => {
    let answers = 0;
    const rebinding: ResolveHost = async () => [answers++ % 2 === 0 ? '169.254.169.254' : '127.0.0.1'];
    const { allowed } = await open([`rebound.example:${port}`], rebinding);
    for (let i = 1; i <= 4; i++) {
      expect(await tunnelled(`rebound.example:${port}`)).toMatch(/^HTTP\/1\.1 403 /);
      expect(answers).toBe(i);
    }
    expect(allowed.size).toBe(0);
    expect(refused.map(({ reason }) => reason)[0]).toContain('resolves to 169.254.169.254');
  });

  test('resolves a name once and connects to the answer', async () => {
    const hosts: string[] = [];
    const then: ResolveHost = async (host) => {
      hosts.push(host);
      return hosts.length === 1 ? ['127.0.0.1'] : ['169.254.169.254'];
    };
    await open([`a.example:${port}`, `127.0.0.1:${port}`], then);
    expect(await tunnelled(`a.example:${port}`, '/once')).toContain('GET /once');
    expect(hosts).toEqual(['a.example']);
  });

  test.each([
    ['a status that is none', 'HTTP/1.1 000 X\r\n\r\n', 502],
    ['a status above all', 'HTTP/1.1 999 X\r\n\r\n', 502],
    ['a control character in its phrase', 'HTTP/1.1 200 a\u0001b\r\nConnection: close\r\n\r\nwords', 200],
    ['a control character in a header', 'HTTP/1.1 200 OK\r\nX: a\u0001b\r\n\r\n', 502],
    ['another protocol', 'HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes', 502],
  ])('S7: survives a listed host that answers with %s', async (_, words, status) => {
    const hostile = createRawServer((socket) => socket.on('error', () => {}).once('data', () => socket.end(words)));
    await once(hostile.listen(0, '127.0.0.1'), 'listening');
    const host = `127.0.0.1:${(hostile.address() as { port: number }).port}`;
    await open([host]);
    const socket = await dialled();
    socket.write(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    expect(await text(socket)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    hostile.close();
  });

  test('limits connections and the length of a head', async () => {
    await open([`127.0.0.1:${port}`]);
    const long = await say(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`);
    expect(long).toMatch(/^HTTP\/1\.1 431 /);
    const sockets = await Promise.all(Array.from({ length: 64 }, dialled));
    const dropped = await dialled();
    await once(dropped.resume(), 'end');
    expect(refused.slice(1)).toEqual([{ to: '', reason: 'more than 64 connections at once' }]);
    for (const socket of sockets) socket.destroy();
  });

  test('ends what is open when it is closed', async () => {
    const own = await open([`127.0.0.1:${port}`]);
    const socket = await dialled();
    socket.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`);
    await once(socket, 'data');
    const gone = once(socket.resume(), 'end');
    await own.close();
    await gone;
    await expect(dialled()).rejects.toThrow(/ENOENT|ECONNREFUSED/);
  });
});

/** An address that others on the network could have: the loopback stands in where there is none. */
const address =
  Object.values(networkInterfaces())
    .flat()
    .find((found) => found?.family === 'IPv4' && !found.internal)?.address ?? '127.0.0.1';
const script = join(import.meta.dirname, 'reaches.js');

describe.skipIf(!hasBwrap())('a sandbox with hosts', () => {
  let harness: SandboxHarness;
  let webs: Server[] = [];
  let hosts: string[] = [];
  const open: Egress[] = [];

  beforeAll(async () => {
    harness = await createSandboxHarness();
    webs = [createServer((_, answer) => answer.end('first')), createServer((_, answer) => answer.end('second'))];
    hosts = await Promise.all(
      webs.map(async (web) => {
        await once(web.listen(0, address), 'listening');
        return `${address}:${(web.address() as { port: number }).port}`;
      }),
    );
  });

  afterAll(async () => {
    await Promise.all(open.map((egress) => egress.close()));
    for (const web of webs) web.close();
    await harness.stop();
  });

  async function launched(args: readonly string[], allowed: readonly string[], given: Partial<ProcessLaunch> = {}) {
    const launch = harness.launch(args);
    const refused: EgressRefusal[] = [];
    const folder = mkdtempSync(join(harness.folder, 'egress-'));
    const egress = await openEgress({ allowed, folder, onRefused: (refusal) => refused.push(refusal) });
    open.push(egress);
    const running = await harness.runner.start({
      ...launch,
      ...given,
      egressProxy: { socket: egress.socket, allowed },
    });
    const [said, complaints, exit] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
    return { said, complaints, exit, refused };
  }

  test('reaches exactly what is listed, each its own, and nothing past the proxy', async () => {
    const [first, second] = hosts as [string, string];
    const metadata = '169.254.169.254:80';
    const asked = JSON.stringify({ places: [...hosts, metadata], plain: `http://${second}/` });
    const [one, other] = await Promise.all([launched([script, asked], [first]), launched([script, asked], [second])]);
    expect([one.complaints, one.exit.code]).toEqual(['', 7]);
    const seen = JSON.parse(one.said);
    expect(seen.found[first].through).toMatch(/^HTTP\/1\.1 200 [\s\S]*first/);
    expect(seen.found[second].through).toMatch(/^HTTP\/1\.1 403 /);
    expect(seen.found[metadata].through).toMatch(/^HTTP\/1\.1 403 /);
    for (const host of hosts) expect(seen.found[host].past).toBe('ENETUNREACH');
    expect(one.refused.map(({ to }) => to)).toEqual([second, metadata, second]);
    expect(seen.plain).toMatch(/^HTTP\/1\.1 403 /);

    const seenByOther = JSON.parse(other.said);
    expect(seenByOther.found[first].through).toMatch(/^HTTP\/1\.1 403 /);
    expect(seenByOther.found[second].through).toMatch(/^HTTP\/1\.1 200 [\s\S]*second/);
    expect(seenByOther.plain).toContain('second');
    expect(seen.proxied).toEqual(
      ['HTTPS_PROXY', 'HTTP_PROXY', 'NODE_USE_ENV_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy'].sort(),
    );
    expect(seen.run).toEqual(['egress', 'egress/forwarder.mjs', 'egress/socket']);
  });

  test('serves a program that is not Node', async () => {
    const [first, second] = hosts as [string, string];
    const program = [
      'import urllib.request, urllib.error',
      `print(urllib.request.urlopen("http://${first}/").read().decode())`,
      `try: urllib.request.urlopen("http://${second}/")`,
      'except urllib.error.HTTPError as error: print(error.code)',
    ].join('\n');
    const { said, complaints } = await launched(['-c', program], [first], { command: '/usr/bin/python3' });
    expect([said, complaints]).toEqual(['first\n403\n', '']);
  });

  test('ends as its server ends, and hears its input end', async () => {
    const ends = await launched(['-e', 'process.kill(process.pid, "SIGKILL")'], hosts);
    expect(ends.exit.code).toBe(128 + 9);
    const launch = harness.launch(['-e', 'process.stdin.resume().on("end", () => console.log("end"))']);
    const running = await harness.runner.start({
      ...launch,
      egressProxy: { socket: (open[0] as Egress).socket, allowed: hosts },
    });
    running.stdin.end();
    expect(await text(running.stdout)).toBe('end\n');
    expect(await running.exited).toEqual({ code: 0, signal: null });
  });
});
