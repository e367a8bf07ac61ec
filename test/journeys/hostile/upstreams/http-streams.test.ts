import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts, proof } from '../../../proof.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { waitUntilAtMost } from '../../wait-until.ts';
import { callersOfBothEras } from '../both-eras.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import {
  answerCorrectly,
  type Behaviour,
  sendFast,
  sendSlowly,
  startUpstream,
  toEvent,
  type Upstream,
} from './start-http-upstream.ts';

const messageBytes = counts(1 << 20, 4 << 20);
const events = { 'content-type': 'text/event-stream' };
const json = { 'content-type': 'application/json' };
const block = Buffer.alloc(1 << 16, 'x');
const log = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'd' } });

function pouring(status: number, headers: Record<string, string>, bytes: string | Buffer, first = ''): Behaviour {
  return (_asked, response) => {
    response.writeHead(status, headers);
    if (first !== '') response.write(first);
    sendFast(response, bytes);
  };
}

/** Goes on until the call's time is up: the proof sends as much as is taken, otherwise it would only cost time. */
function flooding(bytes: string): Behaviour {
  if (proof) return pouring(200, events, bytes);
  return (_asked, response) => {
    response.writeHead(200, events);
    sendSlowly(response, bytes, 20);
  };
}

/** The endless behaviour of an upstream, and the final answer to the caller. */
const endless: Record<string, [Behaviour, string]> = {
  'never answers': [() => {}, '!UPSTREAM_TIMEOUT'],
  'answers with the head only': [
    (_asked, response) => void response.writeHead(200, json).flushHeaders(),
    '!UPSTREAM_TIMEOUT',
  ],
  'never ends its answer': [pouring(200, json, block, '{"jsonrpc":"2.0","result":"'), '!UPSTREAM_TOO_LARGE'],
  'never ends an event': [pouring(200, events, block, 'data: '), '!UPSTREAM_TOO_LARGE'],
  'never ends an event of short lines': [pouring(200, events, 'data:\n'.repeat(8192)), '!UPSTREAM_TOO_LARGE'],
  'never ends an event of comments': [pouring(200, events, ':\n'.repeat(8192)), '!UPSTREAM_TOO_LARGE'],
  'sends nothing but empty events': [flooding(': hi\n\n'.repeat(8192)), '!UPSTREAM_TIMEOUT'],
  'sends nothing but notifications': [flooding(toEvent(log).repeat(512)), '!UPSTREAM_TIMEOUT'],
  'drips its answer': [
    ({ id }, response) => {
      response.writeHead(200, json);
      response.write(answerCorrectly(id).slice(0, 10));
      sendSlowly(response, ' ', 50);
    },
    '!UPSTREAM_TIMEOUT',
  ],
  'drips events': [
    (_asked, response) => {
      response.writeHead(200, events);
      sendSlowly(response, ': hi\n\n', 50);
    },
    '!UPSTREAM_TIMEOUT',
  ],
  'sends hints for ever': [
    (_asked, _response, socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 20);
      socket.on('close', () => clearInterval(timer));
    },
    '!UPSTREAM_TIMEOUT',
  ],
  'never ends a 401': [pouring(401, json, block), '!UPSTREAM_FAILED'],
  'never ends a 500': [pouring(500, { 'content-type': 'text/html' }, block), '!UPSTREAM_FAILED'],
  'never ends a page': [pouring(200, { 'content-type': 'text/html' }, block), '!UPSTREAM_FAILED'],
  'answers, and never ends the stream': [
    ({ id }, response) => {
      response.writeHead(200, events);
      response.write(toEvent(answerCorrectly(id)));
      sendSlowly(response, ': hi\n\n', 50);
    },
    'right',
  ],
  'answers, and goes on talking for ever': [
    ({ id }, response) => {
      response.writeHead(200, events);
      response.write(toEvent(answerCorrectly(id)));
      sendFast(response, toEvent(log).repeat(512));
    },
    'right',
  ],
};

let upstream: Upstream;
let ambit: WatchedAmbit;

beforeAll(async () => {
  upstream = await startUpstream(Object.fromEntries(Object.entries(endless).map(([name, [act]]) => [name, act])));
  ambit = await startWatchedAmbit({
    limits: { messageBytes },
    servers: {
      bad: { url: upstream.url, timeoutSeconds: 2 },
      // However busy this machine is: what is too large is told as that.
      patient: { url: upstream.url },
      other: fixtureServer('well-behaved.js'),
    },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  await upstream?.stop();
});

/** The gateway lets go of what it no longer needs, so that the upstream cannot pour for ever. */
async function expectLetGo(): Promise<void> {
  await waitUntilAtMost(() => upstream.connections(), 2, maxWaitMs);
}

describe.each(callersOfBothEras(() => ambit))('%s era', (era, call) => {
  test('upstreams without end: each call ends as it should, and so does its connection', async () => {
    // The handshake has the same time limit as a call, so it comes before this process has to pour.
    expect(await call('bad', 'echo')).toBe('right');
    // Outside the proof each of them is called in one of the eras.
    const names = Object.keys(endless).filter((_, index) => proof || (index % 2 === 0) === (era === 'modern'));
    const server = (name: string) => (endless[name]?.[1] === '!UPSTREAM_TIMEOUT' ? 'bad' : 'patient');
    const calls = Promise.all(names.map((name, id) => call(server(name), name, {}, id)));
    const beside = call('other', 'echo', { text: 'beside' });
    await ambit.expectMemoryWithin(250, calls);
    const told = Object.fromEntries((await calls).map((said, id) => [names[id], said]));
    expect(told).toEqual(Object.fromEntries(names.map((name) => [name, endless[name]?.[1]])));
    expect(await beside).toBe('beside');
    await expectLetGo();
    expect(await call('patient', 'echo')).toBe('right');
  });

  test.runIf(proof)('a huge event of very short lines takes no more memory than one of long lines', async () => {
    const all = Promise.all(
      Array.from({ length: 64 }, (_, id) => call('patient', 'never ends an event of short lines', {}, id)),
    );
    await ambit.expectMemoryWithin(250, all);
    expect(new Set(await all)).toEqual(new Set(['!UPSTREAM_TOO_LARGE']));
    await expectLetGo();
  });
});
