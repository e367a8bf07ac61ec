import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts, proof } from '../../../proof.ts';
import { until } from '../../../sandbox/tagged-processes.ts';
import {
  callModern,
  type JsonClient,
  modernHeaders,
  modernRequest,
  openClient,
  readOutcome,
} from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { openRawSocket, type RawSocket, writeHead } from '../raw-socket.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import { sendFast, startUpstream, toEvent, type Upstream } from '../upstreams/start-http-upstream.ts';

const data = 'x'.repeat(200_000);
const count = counts(120, 1900);
const flood = { name: 'flood', arguments: { count, data } };
let ambit: WatchedAmbit;
let upstream: Upstream;

beforeAll(async () => {
  const params = { level: 'info', data };
  upstream = await startUpstream(
    {},
    {
      GET(_asked, response) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        sendFast(response, toEvent(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/message', params })));
      },
    },
  );
  ambit = await startWatchedAmbit({
    servers: {
      chatty: fixtureServer('floods-notifications.js'),
      big: fixtureServer('answers-big.js'),
      pouring: { url: upstream.url },
    },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  await upstream?.stop();
});

/** A connection that has asked for something and reads nothing of it. */
async function ask(request: string): Promise<RawSocket> {
  const wire = await openRawSocket(ambit.url);
  wire.socket.pause();
  await wire.say(request);
  return wire;
}

function post(server: string, token: string, lines: Record<string, string>, message: object): string {
  const body = JSON.stringify(message);
  return (
    writeHead(`/mcp/${server}`, { authorization: `Bearer ${token}`, ...lines, 'content-length': body.length }) + body
  );
}

function get(server: string, token: string, client: JsonClient): string {
  return writeHead(`/mcp/${server}`, { authorization: `Bearer ${token}`, ...client.headers }, 'GET');
}

/**
 * While somebody reads nothing of what they asked for, others are served by the same server, and, as the proof
 * measures, little is kept of the flood.
 */
function expectCalm<T>(server: string, askAndReadNothing: () => Promise<T>): Promise<T> {
  return ambit.expectHeldWithin(10, async () => {
    const slow = await askAndReadNothing();
    const { token } = await ambit.session();
    for (let round = 0; round < 3; round++) {
      expect(readOutcome(await callModern(ambit.mcp(server), token, 'echo', { text: 'other' }))).toMatch(/other|right/);
    }
    return slow;
  });
}

/** Its answer, and whether it has come: as long as nobody reads, the server cannot get rid of the flood. */
function watchedFlood(client: JsonClient): { readonly said: Promise<string>; isOver(): boolean } {
  let over = false;
  const said = client.call('flood', flood.arguments).then(readOutcome);
  void said.finally(() => {
    over = true;
  });
  return { said, isOver: () => over };
}

test('modern era: a stream that is not read holds back its own server only, and is delivered whole later', async () => {
  const { token } = await ambit.session();
  const meta = { 'io.modelcontextprotocol/logLevel': 'info' };
  const message = modernRequest(1, 'tools/call', { ...flood, _meta: meta });
  const wire = await expectCalm('chatty', () =>
    ask(post('chatty', token, modernHeaders('tools/call', 'flood'), message)),
  );
  wire.socket.resume();
  const text = await wire.hears(/"flooded"/);
  expect(text.match(/notifications\/message/g)).toHaveLength(count);
  wire.socket.destroy();
});

test('handshake era: a stream beside the calls that is not read', async () => {
  const { token } = await ambit.session();
  const client = await openClient(ambit.mcp('chatty'), token);
  const [wire, flooding] = await expectCalm('chatty', async () => {
    const unread = await ask(get('chatty', token, client));
    return [unread, watchedFlood(client)] as const;
  });
  expect(flooding.isOver()).toBe(false);
  wire.socket.resume();
  expect(await flooding.said).toBe('flooded');
  wire.socket.destroy();
});

test('an upstream over HTTP that pours into a stream nobody reads', async () => {
  const { token } = await ambit.session();
  const client = await openClient(ambit.mcp('pouring'), token);
  const wire = await expectCalm('pouring', async () => {
    const unread = await ask(get('pouring', token, client));
    await until(
      () => upstream.seen.includes('GET'),
      maxWaitMs,
      () => 'the stream was not opened',
    );
    return unread;
  });
  expect(readOutcome(await client.call('echo'))).toBe('right');
  wire.socket.destroy();
});

test('a client that leaves while it holds back its server frees it', async () => {
  const { token } = await ambit.session();
  const client = await openClient(ambit.mcp('chatty'), token);
  const [wire, flooding] = await expectCalm('chatty', async () => {
    const unread = await ask(get('chatty', token, client));
    return [unread, watchedFlood(client)] as const;
  });
  expect(flooding.isOver()).toBe(false);
  wire.reset();
  expect(await flooding.said).toBe('flooded');
});

describe.runIf(proof)('clients that have stopped reading are cut off after a while', () => {
  test('on a stream: the server behind it is freed', async () => {
    const { token } = await ambit.session();
    const client = await openClient(ambit.mcp('chatty'), token);
    const wire = await ask(get('chatty', token, client));
    expect(readOutcome(await client.call('flood', flood.arguments))).toBe('flooded');
    wire.socket.destroy();
  });

  test('on large answers: what was kept for them is let go', async () => {
    const bytes = 16 << 20;
    const wires = await Promise.all(
      Array.from({ length: 10 }, async () => {
        const { token } = await ambit.session();
        const call = modernRequest(1, 'tools/call', { name: 'big', arguments: { bytes, shape: 'first' } });
        return ask(post('big', token, modernHeaders('tools/call', 'big'), call));
      }),
    );
    // Whoever does not read cannot see the cut: there is no event to wait for.
    await new Promise((resolve) => setTimeout(resolve, 75_000));
    for (const wire of wires) {
      wire.socket.resume();
      expect((await wire.untilClosed()).length).toBeLessThan(bytes);
    }
  });
});
