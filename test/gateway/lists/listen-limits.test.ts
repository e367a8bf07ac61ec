import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { type RecordedGateway, startRecordedGateway } from '../../journeys/forgery/start-recorded-gateway.ts';
import { bearerHeader, callModern, modernBody, readToolText, sendModern } from '../../journeys/raw-mcp-client.ts';

let attacked: RecordedGateway;

beforeAll(async () => {
  // Of the handshake era, so that each URI becomes a request of its own to it.
  const old = { ...stdioRecorder, context: 'none', era: 'handshake' };
  attacked = await startRecordedGateway({ servers: { old } });
});

afterAll(() => attacked?.stop());

const at = (server: string) => (server === '' ? `${attacked.ambit.url}/mcp` : attacked.ambit.mcp(server));
const places = { 'a server': 'old', 'a modern server': 'web', 'all servers': '', "Ambit's own tools": 'ambit' };
const asked = (uris: readonly unknown[]) => ({
  method: 'subscriptions/listen',
  params: `"notifications":{"resourceSubscriptions":${JSON.stringify(uris)}}`,
});

/** What the server of the handshake era has been asked, by method. */
async function recorded(token: string): Promise<Record<string, number>> {
  const lines = JSON.parse(await readToolText(callModern(at('old'), token, 'recorded', '{}'))) as string[];
  const counts: Record<string, number> = {};
  for (const line of lines) {
    const { method } = JSON.parse(line) as { method: string };
    counts[method] = (counts[method] ?? 0) + 1;
  }
  return counts;
}

const some = (count: number) => Array.from({ length: count }, (_, n) => `note:${n}`);

describe.each(Object.entries(places))('a listen request to %s', (_, server) => {
  test('S8: names no more resources, and no longer ones, than a client can subscribe to', async () => {
    const { token } = await attacked.open();
    const twice = { ...asked([]), params: asked(some(1001)).params.replace('{', '{"resourceSubscriptions":[],') };
    for (const listen of [asked(some(1001)), asked([`note:${'x'.repeat(8192)}`]), asked([7]), twice]) {
      const refused = await sendModern(at(server), token, listen);
      expect(await refused.next()).toContain('"code":-32602');
      refused.close();
    }
    const stream = await sendModern(at(server), token, asked([`note:${'x'.repeat(8000)}`]));
    expect(await stream.next()).toContain('notifications/subscriptions/acknowledged');
    stream.close();
  });
});

test('S8: a listen request ends with its client, and so do the requests it is made of', async () => {
  const { token } = await attacked.open();
  await recorded(token);
  const listen = asked(['silent:', ...some(999)]);
  const leaving = request(at('old'), {
    method: 'POST',
    headers: {
      ...bearerHeader(token),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': listen.method,
    },
  });
  leaving.on('error', () => {});
  leaving.end(modernBody(listen));
  await expect.poll(async () => (await recorded(token))['resources/subscribe']).toBe(1);
  leaving.destroy();
  await expect.poll(async () => (await recorded(token))['resources/unsubscribe']).toBe(1);
  expect((await recorded(token))['resources/subscribe']).toBe(1);
});

test('S8: a listen request over all servers asks them for their resources once', async () => {
  const { token } = await attacked.open();
  const listsFor = async (count: number) => {
    const stream = await sendModern(at(''), token, asked(some(count)));
    expect(await stream.next()).toContain('acknowledged');
    stream.close();
    return (await recorded(token))['resources/list'] ?? 0;
  };
  const before = await listsFor(1);
  expect((await listsFor(200)) - before).toBe(1);
});
