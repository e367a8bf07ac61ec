import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { callModern, handshake, initializeRequest, post, readOutcome } from '../journeys/json-mcp-client.ts';
import { counts, proof } from '../proof.ts';
import { createSayingUpstream } from './echoing-upstream.ts';
import { createSharedData, type ServedGateway } from './shared-data.ts';

const data = createSharedData();
const upstream = createSayingUpstream();
const many = counts(64, 10_000);
const hot = counts(20, 1000);
const atOnce = 16;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function heapMb(): number {
  upstream().seen.length = 0;
  upstream().asked.length = 0;
  collect();
  return process.memoryUsage().heapUsed / 1_048_576;
}

interface Guest {
  readonly token: string;
  transportId: string | undefined;
}

/** Every other session has a client of the handshake era, which keeps its transport session from round to round. */
async function call(own: ServedGateway, guest: Guest, index: number, words: string): Promise<string> {
  if (index % 2 === 0) return readOutcome(await callModern(own.mcp('it'), guest.token, 'say', { words }));
  if (guest.transportId === undefined) {
    const opened = await post(own.mcp('it'), guest.token, JSON.stringify(initializeRequest()));
    guest.transportId = opened.headers['mcp-session-id'] as string;
  }
  const headers = { 'mcp-session-id': guest.transportId, 'mcp-protocol-version': handshake };
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'say', arguments: { words } } };
  return readOutcome(await post(own.mcp('it'), guest.token, JSON.stringify(message), headers));
}

test(`L5: ${many} sessions called in turn by a gateway that holds ${hot}: its memory is bounded, nothing is left behind`, async () => {
  const own = await data.serve({
    servers: { it: { url: upstream().url } },
    sessions: { maxSessions: hot, maxPerUser: 100_000 },
  });
  const guests: Guest[] = [];
  while (guests.length < many) {
    const some = await Promise.all(Array.from({ length: Math.min(100, many - guests.length) }, () => own.open()));
    guests.push(...some.map(({ token }) => ({ token, transportId: undefined })));
  }
  const heaps: number[] = [];
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < many; at += atOnce) {
      const said = await Promise.all(
        guests.slice(at, at + atOnce).map((guest, lane) => call(own, guest, at + lane, `${round}/${at + lane}`)),
      );
      expect(said).toEqual(said.map((_, lane) => `${round}/${at + lane}`));
    }
    const { sessions, links, transports } = own.gateway.live();
    expect(sessions).toBeLessThanOrEqual(hot);
    expect(links).toBeLessThanOrEqual(sessions);
    expect(transports).toBeLessThanOrEqual(sessions);
    if (proof) heaps.push(Math.round(heapMb() * 10) / 10);
  }
  if (!proof) return;
  process.stdout.write(`${many} sessions, ${hot} held: ${heaps.join(', ')} MB of heap after each round\n`);
  expect((heaps[1] as number) - (heaps[0] as number)).toBeLessThan(25);
});

test('L5: more sessions at work at once than may be held: every call is answered, and in the end few are held', async () => {
  const own = await data.serve({
    servers: { it: { url: upstream().url } },
    sessions: { maxSessions: 2, maxPerUser: 1000, bindAddress: true },
  });
  const guests: Guest[] = await Promise.all(
    Array.from({ length: counts(12, 24) }, async () => ({ token: (await own.open()).token, transportId: undefined })),
  );
  for (let round = 0; round < counts(2, 3); round++) {
    const said = await Promise.all(guests.map((guest, index) => call(own, guest, index, `${round}/${index}`)));
    expect(said).toEqual(said.map((_, index) => `${round}/${index}`));
  }
  const last = await own.open();
  expect(readOutcome(await callModern(own.mcp('it'), last.token, 'say', { words: 'last' }))).toBe('last');
  const { sessions, links, transports } = own.gateway.live();
  expect(sessions).toBeLessThanOrEqual(3);
  expect(links).toBeLessThanOrEqual(sessions);
  expect(transports).toBeLessThanOrEqual(sessions);
});
