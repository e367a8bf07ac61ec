import { createServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { callModern, openClient, readOutcome } from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { waitUntilAtMost } from '../../wait-until.ts';
import { callersOfBothEras } from '../both-eras.ts';
import { startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import {
  answerCorrectly,
  type Behaviour,
  sendJson,
  startUpstream,
  toEvent,
  type Upstream,
} from './start-http-upstream.ts';

const events = { 'content-type': 'text/event-stream' };
const html = '<!doctype html><h1>Sign in</h1>';
let trapped = 0;
let trapUrl = '';

function raw(bytes: string): Behaviour {
  return (_asked, _response, socket) => void socket.end(bytes, 'latin1');
}

function announced(text: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text}`;
}

function status(code: number, body = '', headers: Record<string, string> = {}): Behaviour {
  return (_asked, response) => void response.writeHead(code, headers).end(body);
}

function redirect(code: number): Behaviour {
  return (_asked, response) => void response.writeHead(code, { location: trapUrl }).end();
}

/** The behaviour of an upstream, and the answer to the caller. */
const behaviours: Record<string, [Behaviour, string]> = {
  'resets the connection': [(_asked, _response, socket) => void socket.resetAndDestroy(), '!UPSTREAM_FAILED'],
  'closes the connection': [(_asked, _response, socket) => void socket.end(), '!UPSTREAM_FAILED'],
  'resets in the middle of a body': [
    ({ id }, response, socket) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
      response.write(answerCorrectly(id), () => socket.resetAndDestroy());
    },
    '!UPSTREAM_FAILED',
  ],
  'ends in the middle of a body': [
    ({ id }, response, socket) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
      response.write(answerCorrectly(id), () => socket.end());
    },
    '!UPSTREAM_FAILED',
  ],
  'resets in the middle of an event': [
    ({ id }, response, socket) => {
      response.writeHead(200, events);
      response.write(toEvent(answerCorrectly(id)).slice(0, 40), () => socket.resetAndDestroy());
    },
    '!UPSTREAM_FAILED',
  ],
  'answers in plain text': [
    ({ id }, response) => sendJson(response, answerCorrectly(id), 200, { 'content-type': 'text/plain' }),
    '!UPSTREAM_FAILED',
  ],
  'answers without a type': [({ id }, response) => void response.end(answerCorrectly(id)), '!UPSTREAM_FAILED'],
  'answers with a page': [status(200, html, { 'content-type': 'text/html' }), '!UPSTREAM_FAILED'],
  'answers with nothing': [status(200, '', { 'content-type': 'application/json' }), '!UPSTREAM_FAILED'],
  'answers 202': [status(202), '!UPSTREAM_FAILED'],
  'answers 204': [status(204), '!UPSTREAM_FAILED'],
  'answers 401': [status(401, html, { 'www-authenticate': 'Bearer' }), '!LOGIN_REQUIRED'],
  'answers 403': [({ id }, response) => sendJson(response, answerCorrectly(id), 403), '!UPSTREAM_FAILED'],
  'answers 407': [({ id }, response) => sendJson(response, answerCorrectly(id), 407), '!UPSTREAM_FAILED'],
  'answers 418': [status(418, 'I am a teapot'), '!UPSTREAM_FAILED'],
  'answers 500': [status(500, html, { 'content-type': 'text/html' }), '!UPSTREAM_FAILED'],
  'answers 503': [status(503, '', { 'retry-after': '1' }), '!UPSTREAM_FAILED'],
  'answers 500 in the protocol': [
    ({ id }, response) =>
      sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32603, message: 'm' } }), 500),
    '!-32603',
  ],
  'redirects (301)': [redirect(301), '!UPSTREAM_FAILED'],
  'redirects (302)': [redirect(302), '!UPSTREAM_FAILED'],
  'redirects (307)': [redirect(307), '!UPSTREAM_FAILED'],
  'redirects (308)': [redirect(308), '!UPSTREAM_FAILED'],
  'answers another id': [(_asked, response) => sendJson(response, answerCorrectly(999_999)), '!UPSTREAM_FAILED'],
  'answers the id as text': [({ id }, response) => sendJson(response, answerCorrectly(String(id))), '!UPSTREAM_FAILED'],
  'answers no id': [(_asked, response) => sendJson(response, answerCorrectly(null)), '!UPSTREAM_FAILED'],
  'answers a batch': [({ id }, response) => sendJson(response, `[${answerCorrectly(id)}]`), '!UPSTREAM_FAILED'],
  'answers with half a message': [
    ({ id }, response) => sendJson(response, answerCorrectly(id).slice(0, 20)),
    '!UPSTREAM_FAILED',
  ],
  'answers with 100,000 brackets': [(_asked, response) => sendJson(response, '['.repeat(100_000)), '!UPSTREAM_FAILED'],
  'answers with the request': [
    (asked, response) => sendJson(response, JSON.stringify({ ...asked, request: 1 })),
    '!UPSTREAM_FAILED',
  ],
  'answers in gzip nobody asked for': [
    ({ id }, response) =>
      void response
        .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
        .end(gzipSync(answerCorrectly(id))),
    '!UPSTREAM_FAILED',
  ],
  'answers with a wrong id first': [
    ({ id }, response) =>
      void response.writeHead(200, events).end(toEvent(answerCorrectly(5555, 'no')) + toEvent(answerCorrectly(id))),
    'right',
  ],
  'answers twice': [
    ({ id }, response) =>
      void response.writeHead(200, events).end(toEvent(answerCorrectly(id)) + toEvent(answerCorrectly(id, 'again'))),
    'right',
  ],
  'mixes nonsense between events': [
    ({ id }, response) =>
      void response
        .writeHead(200, events)
        .end(`: hi\n\nid\nretry: x\nfoo: bar\n\ndata: nonsense\n\ndata:\n\n\n\n${toEvent(answerCorrectly(id))}`),
    'right',
  ],
  'ends a stream without an answer': [
    (_asked, response) => void response.writeHead(200, events).end(': nothing\n\n'),
    '!UPSTREAM_FAILED',
  ],
  'never ends the last event': [
    ({ id }, response) => void response.writeHead(200, events).end(toEvent(answerCorrectly(id)).trimEnd()),
    '!UPSTREAM_FAILED',
  ],
  'sends garbage for chunks': [
    raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n'),
    '!UPSTREAM_FAILED',
  ],
  'sends both lengths': [
    raw(
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}',
    ),
    '!UPSTREAM_FAILED',
  ],
  'speaks no HTTP': [raw('SSH-2.0-OpenSSH_9.6\r\n'), '!UPSTREAM_FAILED'],
  'sends headers without an end': [raw(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(200_000)}\r\n\r\n`), '!UPSTREAM_FAILED'],
  'switches protocols': [
    raw('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
    '!UPSTREAM_FAILED',
  ],
  'says more than it announced': [
    ({ id }, _response, socket) =>
      void socket.end(announced(answerCorrectly(id)) + announced(answerCorrectly(id, 'more'))),
    'right',
  ],
  'says hints first': [
    ({ id }, response, socket) => {
      socket.write('HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n');
      response.writeEarlyHints({ link: '</a>; rel=preload' });
      sendJson(response, answerCorrectly(id));
    },
    'right',
  ],
};

let upstream: Upstream;
let ambit: WatchedAmbit;

beforeAll(async () => {
  const trap = createServer(() => {
    trapped++;
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => trap.once('listening', resolve));
  trap.unref();
  trapUrl = `http://127.0.0.1:${(trap.address() as { port: number }).port}/mcp`;
  upstream = await startUpstream(Object.fromEntries(Object.entries(behaviours).map(([name, [act]]) => [name, act])));
  ambit = await startWatchedAmbit({
    servers: {
      bad: { url: upstream.url },
      refused: { url: 'http://127.0.0.1:1/mcp' },
      // A label this long is no name: nobody is asked for it, so the answer does not depend on a name server.
      unknown: { url: `http://${'x'.repeat(64)}.invalid/mcp` },
    },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  await upstream?.stop();
});

describe.each(callersOfBothEras(() => ambit))('%s era', (_era, call) => {
  test.each(Object.entries(behaviours).map(([what, [, told]]) => [what, told] as const))(
    'an upstream that %s: %s',
    async (what, told) => {
      expect(await call('bad', what, {}, 'mine')).toBe(told);
      expect(await call('bad', 'echo', {}, 'mine')).toBe('right');
    },
  );
});

test.each(['refused', 'unknown'])('an upstream that cannot be reached (%s): UPSTREAM_FAILED', async (server) => {
  expect(readOutcome(await callModern(ambit.mcp(server), ambit.token, 'echo'))).toBe('!UPSTREAM_FAILED');
  await expect(openClient(ambit.mcp(server), ambit.token)).rejects.toThrow('UPSTREAM_FAILED');
});

test('no redirect was followed, and no connection stays in use', async () => {
  expect(trapped).toBe(0);
  await waitUntilAtMost(() => upstream.connections(), 16, maxWaitMs);
});
