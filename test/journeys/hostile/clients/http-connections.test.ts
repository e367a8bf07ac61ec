import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts, proof } from '../../../proof.ts';
import { modernHeaders, modernRequest, openClient, readOutcome } from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { waitUntilAtMost } from '../../wait-until.ts';
import { openRawSocket, parseAnswers, type RawSocket, writeHead } from '../raw-socket.ts';
import { startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

const each = counts(4, 300);
let ambit: WatchedAmbit;
let auth: Record<string, string>;
let request: string;
let headEnd: number;

beforeAll(async () => {
  ambit = await startWatchedAmbit({});
  auth = { authorization: `Bearer ${ambit.token}`, ...modernHeaders('tools/call', 'echo') };
  request = full('echo');
  headEnd = request.indexOf('\r\n\r\n') + 4;
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

function body(name: string, args: Record<string, unknown> = {}): string {
  return JSON.stringify(modernRequest(1, 'tools/call', { name, arguments: args, _meta: { progressToken: 1 } }));
}

function full(name: string): string {
  const text = body(name);
  return writeHead('/mcp/calm', { ...auth, 'mcp-name': name, 'content-length': text.length }) + text;
}

/** The state of a client when it is cut off. */
const phases: Record<string, (wire: RawSocket) => Promise<unknown>> = {
  'before it said anything': async () => {},
  'in the request line': (wire) => wire.say(request.slice(0, 9)),
  'in a header name': (wire) => wire.say(request.slice(0, 40)),
  'before the last line of the head': (wire) => wire.say(request.slice(0, headEnd - 2)),
  'after the head': (wire) => wire.say(request.slice(0, headEnd)),
  'in the body': (wire) => wire.say(request.slice(0, headEnd + 30)),
  'one byte before the end': (wire) => wire.say(request.slice(0, -1)),
  'right after the request': (wire) => wire.say(request),
  'in a chunk': (wire) => wire.say(`${writeHead('/mcp/calm', { ...auth, 'transfer-encoding': 'chunked' })}ff\r\nabc`),
  'while a call waits': (wire) => wire.say(full('wait')),
  'in a stream that has begun': async (wire) => {
    await wire.say(full('wait'));
    await wire.hears(/notifications\/progress/);
  },
  'with an answer half read': async (wire) => {
    const text = body('echo', { text: 'x'.repeat(1 << 20) });
    await wire.say(writeHead('/mcp/calm', { ...auth, 'content-length': text.length }) + text);
    // Hundreds of such requests at once are more bytes than the gateway keeps: some of them are refused.
    await wire.hears(proof ? /HTTP\/1\.1 (?:200|503)/ : /HTTP\/1\.1 200/);
  },
  'in the middle of a pipeline': (wire) => wire.say(request.repeat(20) + request.slice(0, 50)),
};

test.each(Object.keys(phases))('a client is cut off %s: nothing stays behind', async (phase) => {
  const before = ambit.handles();
  await Promise.all(
    Array.from({ length: each }, async (_, index) => {
      const wire = await openRawSocket(ambit.url);
      await phases[phase]?.(wire);
      // Half of them vanish with a reset, half say that they are leaving.
      if (index % 2 === 0) wire.reset();
      else wire.socket.destroy();
    }),
  );
  await waitUntilAtMost(() => ambit.handles(), before, maxWaitMs);
});

test('a stream of the handshake era is cut off, and can be opened again', async () => {
  const client = await openClient(ambit.mcp('calm'), ambit.token);
  for (let round = 0; round < each; round++) {
    let wire: RawSocket;
    do {
      wire = await openRawSocket(ambit.url);
      await wire.say(
        writeHead('/mcp/calm', { authorization: auth['authorization'] as string, ...client.headers }, 'GET'),
      );
      await wire.hears(/\r\n\r\n/);
      // The reset before may not have been noticed yet.
    } while (parseAnswers(wire.heard())[0]?.status === 409);
    expect(parseAnswers(wire.heard())[0]?.status).toBe(200);
    wire.reset();
  }
  expect(readOutcome(await client.call('echo', { text: 'hi' }))).toBe('hi');
});

test('a client that closes its half of the connection has left: in the modern era that is a cancellation', async () => {
  const wire = await openRawSocket(ambit.url);
  wire.socket.end(full('wait'));
  expect(await wire.untilClosed()).not.toContain('"result"');
});

describe('slow clients', () => {
  const drips: Record<string, () => string> = {
    heads: () => request.slice(0, headEnd - 2),
    bodies: () => request.slice(0, headEnd + 1),
  };

  test.each(Object.entries(drips))('%s that drip in keep nobody else waiting', async (_what, start) => {
    const wires = await Promise.all(Array.from({ length: counts(50, 500) }, () => openRawSocket(ambit.url)));
    await Promise.all(wires.map((wire) => wire.say(start())));
    await ambit.expectHealthy();
    for (const wire of wires) wire.reset();
  });

  test.runIf(proof).each(Object.entries(drips))('%s that drip in are cut off', async (what, start) => {
    const wire = await openRawSocket(ambit.url);
    await wire.say(start());
    const drip = setInterval(() => void wire.say(what === 'heads' ? 'x: y\r\n' : ' '), 500);
    const text = await wire.untilClosed().finally(() => clearInterval(drip));
    expect(parseAnswers(text)[0]?.status ?? 408).toBe(408);
  });
});
