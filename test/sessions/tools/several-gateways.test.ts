import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { readEvents } from '../../entrances/http/event-reader.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';
import { counts } from '../../proof.ts';

let folder: string;
const open: { close(): Promise<unknown> }[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-several-'));
});
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Each has a store of its own on the same file, as separate processes have. */
async function openGatewayHere(): Promise<EmbeddedGateway> {
  const config = { version: 1, quotas: { session: { callsPerMinute: 1_000_000 } } } as const;
  const gateway = await createGateway({ config, dataDir: join(folder, 'data'), log: { info() {}, warn() {} } });
  open.push(gateway);
  return gateway;
}

async function clientOf(gateway: EmbeddedGateway, sessionId: string): Promise<RawClient> {
  const client = await createRawClient(gateway.connect(sessionId, 'ambit'), 'modern');
  open.push(client);
  return client;
}

async function callState(client: RawClient, what: string, args: object): Promise<Record<string, unknown>> {
  const given = { name: `session_state_${what}`, arguments: { session: 'current', ...args } };
  const { result } = await client.request('tools/call', given);
  return result ?? {};
}

test('L15: two gateways on one store count together, and no write is lost', async () => {
  const gateways = [await openGatewayHere(), await openGatewayHere()];
  const { id } = await (gateways[0] as EmbeddedGateway).createSession();
  const clients = await Promise.all([...gateways, ...gateways].map((gateway) => clientOf(gateway, id)));
  const each = counts(10, 250);
  let conflicts = 0;

  interface Count {
    readonly value: number | null;
    readonly version: number;
  }
  async function readCount(client: RawClient): Promise<Count> {
    return (await callState(client, 'get', { key: 'count' }))['structuredContent'] as Count;
  }
  async function increment(client: RawClient, seen: Count | undefined): Promise<void> {
    for (let from = seen; ; from = undefined) {
      const { value, version } = from ?? (await readCount(client));
      const written = await callState(client, 'set', {
        key: 'count',
        value: (value ?? 0) + 1,
        expectedVersion: version,
      });
      if (written['isError'] === undefined) return;
      expect(written['_meta']).toMatchObject({ 'ambit/error': { code: 'STATE_CONFLICT' } });
      conflicts++;
    }
  }

  // All have read before anybody writes: all but one are refused the first time.
  const seen = await Promise.all(clients.map(readCount));
  await Promise.all(
    clients.map(async (client, at) => {
      for (let i = 0; i < each; i++) await increment(client, i === 0 ? seen[at] : undefined);
    }),
  );
  const { structuredContent } = await callState(clients[0] as RawClient, 'get', { key: 'count' });
  expect(structuredContent).toMatchObject({ value: each * clients.length });
  expect(conflicts).toBeGreaterThanOrEqual(clients.length - 1);
});

test('L15: state survives a restart, and goes on with the versions it had', async () => {
  const first = await openGatewayHere();
  const { id } = await first.createSession();
  const before = await clientOf(first, id);
  await callState(before, 'set', { key: 'plan', value: { step: 2, done: ['a'] } });
  for (const each of open.splice(0).reverse()) await each.close();
  const after = await clientOf(await openGatewayHere(), id);
  expect((await callState(after, 'get', { key: 'plan' }))['structuredContent']).toMatchObject({
    found: true,
    value: { step: 2, done: ['a'] },
    version: 1,
  });
  const stale = await callState(after, 'set', { key: 'plan', value: 0, expectedVersion: 0 });
  expect(stale['_meta']).toMatchObject({ 'ambit/error': { code: 'STATE_CONFLICT' } });
  const next = await callState(after, 'set', { key: 'plan', value: 0, expectedVersion: 1 });
  expect(next['structuredContent']).toEqual({ key: 'plan', version: 2 });
});

test('L13: subscribers of one gateway get the events of another one', async () => {
  const [here, elsewhere] = [await openGatewayHere(), await openGatewayHere()];
  const { url } = await here.listen({ port: 0 });
  const token = readFileSync(join(folder, 'data/admin-token'), 'utf8').trim();
  const reader = await readEvents(`${url}/api/v1/events`, { authorization: `Bearer ${token}` });
  const { id } = await elsewhere.createSession({ name: 'elsewhere' });
  const client = await clientOf(elsewhere, id);
  await client.request('tools/call', { name: 'session_end', arguments: { session: 'current' } });
  await reader.hears(({ event }) => event === 'ended');
  expect(reader.heard).toMatchObject([
    { event: 'created', data: { session: { id, name: 'elsewhere' } } },
    { event: 'ended', data: { reason: 'ended', session: { id } } },
  ]);
  reader.close();
});
