import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../start-embedded-ambit.ts';
import { everything, fixture, type Script } from './checks/upstream-scripts.ts';
import { connectV1 } from './connect/connect-v1.ts';
import { connectV2 } from './connect/connect-v2.ts';
import type { McpClient, Target } from './connect/mcp-client.ts';
import { createSimulatedUser } from './connect/simulated-user.ts';
import { type Evidence, isAlive, readStdioEvidence, tapArguments } from './evidence/evidence.ts';
import { findProgress, findStrayMessages } from './evidence/wire-log.ts';
import { createFolders, listStdioArguments, type TestFolders } from './upstreams.ts';

const names = ['everything stdio', 'fixture stdio'] as const;
const pin = { pin: '2026-07-28' };
let places: TestFolders[];
let ambit: EmbeddedAmbit;

beforeAll(async () => {
  places = names.map(() => createFolders());
  const [first, second] = names.map((name, index) => ({
    command: process.execPath,
    args: [...tapArguments(places[index]!.taps), ...listStdioArguments(name, places[index]!)],
  }));
  const third = { command: process.execPath, args: [join(import.meta.dirname, 'asks-together.js')] };
  ambit = await startEmbeddedAmbit({ servers: { everything: first, fixture: second, asking: third } });
});

afterAll(async () => {
  await ambit?.stop();
  for (const place of places) place.remove();
});

interface Host {
  readonly id: string;
  readonly target: Target;
  /** The processes started for this session. */
  pids(): number[];
}

/** A new session at one of the servers. */
async function host(server: 'everything' | 'fixture'): Promise<Host> {
  const { id, token } = await ambit.open();
  const evidence: Evidence = readStdioEvidence(places[server === 'everything' ? 0 : 1]!.taps);
  const before = new Set(evidence.pids());
  return {
    id,
    target: { kind: 'http', url: ambit.mcp(server), token },
    pids: () => evidence.pids().filter((pid) => !before.has(pid)),
  };
}

const person = () => createSimulatedUser([{ uri: pathToFileURL(places[0]!.files).href, name: 'files' }]);

async function busy(client: McpClient, { tool, args, steps }: Exclude<Script['progress'], string>): Promise<void> {
  await client.call(tool, args, { onprogress: () => {} });
  const call = client.wire.findLast(({ way, message }) => way === 'sent' && message.method === 'tools/call');
  expect(findProgress(client.wire, call?.message.id)).toEqual({ before: steps, afterAnswer: [] });
}

describe('several clients at once on one session', () => {
  let atEverything: Host;
  beforeAll(async () => {
    atEverything = await host('everything');
  });

  test('clients with equal capabilities share a process, and each receives only its own messages', async () => {
    const { target, pids } = atEverything;
    const clients = await Promise.all([
      connectV1(target, person()),
      connectV1(target, person()),
      connectV2('legacy', target, person()),
    ]);
    const [first, second, third] = clients as [McpClient, McpClient, McpClient];
    await Promise.all(clients.map((client) => client.streamOpened));
    await Promise.all(clients.map((client) => busy(client, everything.progress)));
    await Promise.all(
      clients.flatMap((client, a) =>
        [1, 2, 3, 4, 5].map(async (b) =>
          expect(await client.call('get-sum', { a: a * 100, b })).toBe(
            `The sum of ${a * 100} and ${b} is ${a * 100 + b}.`,
          ),
        ),
      ),
    );
    const { uri, change } = everything.subscribe;
    const undo = await second.watch(uri);
    await first.call(change.tool);
    await second.heard.waitFor(({ method }) => method === 'notifications/resources/updated');
    await first.call(change.tool);
    await undo();
    expect(await third.call('trigger-sampling-request', { prompt: 'third', maxTokens: 5 })).toContain('third>');
    expect(clients.map((client) => client.person.asked.includes('sampling/createMessage'))).toEqual([
      false,
      false,
      true,
    ]);
    for (const client of [first, third]) expect(client.heard.withMethod('notifications/resources/updated')).toEqual([]);
    for (const client of clients) expect(findStrayMessages(client.wire)).toEqual([]);
    expect(pids()).toHaveLength(1);
    await Promise.all(clients.map((client) => client.leave()));
  });

  test('a client with other capabilities gets a process of its own', async () => {
    const { target, pids } = atEverything;
    const able = await connectV1(target, person());
    const plain = await connectV1(target, person(), {});
    expect((await able.tools()).map(({ name }) => name)).toContain('trigger-sampling-request');
    expect((await plain.tools()).map(({ name }) => name)).not.toContain('trigger-sampling-request');
    expect(pids()).toHaveLength(2);
    await Promise.all([able.leave(), plain.leave()]);
  });

  test('modern clients share a process, and clients of the handshake era have another', async () => {
    const { target, pids } = await host('fixture');
    const modern = await Promise.all([1, 2, 3, 4].map(() => connectV2(pin, target, person())));
    await Promise.all(modern.map((client) => busy(client, fixture.progress)));
    expect(pids()).toHaveLength(1);
    const early = await connectV2('legacy', target, person());
    await Promise.all([...modern, early].map((client) => busy(client, fixture.progress)));
    const { tool, args, says } = fixture.elicitation;
    for (const client of [...modern, early]) {
      expect(await client.call(tool, args)).toBe(says);
      expect(client.person.asked).toEqual(['elicitation/create']);
      expect(findStrayMessages(client.wire)).toEqual([]);
    }
    expect(pids()).toHaveLength(2);
    await Promise.all([...modern, early].map((client) => client.leave()));
  });

  test('after DELETE by one client the other stays; processes end with the session', async () => {
    const { id, target, pids } = await host('fixture');
    const leaving = await connectV1(target, person());
    const staying = await connectV1(target, person());
    await leaving.leave();
    expect(await staying.call(fixture.call.tool)).toBe(fixture.call.says);
    const [pid] = pids();
    expect(pids()).toHaveLength(1);
    await ambit.end(id);
    expect(await staying.call(fixture.call.tool)).toContain('SESSION_ENDED');
    await expect.poll(() => isAlive(pid!), { timeout: 30_000, interval: 20 }).toBe(false);
    await staying.close();
  });

  // A question on a server's stdout does not say which call it belongs to, and the relay takes the youngest one. While
  // two clients that share a process both have a call under way, the older client's question goes to the younger.
  test.fails('a question goes to the client whose call it belongs to', async () => {
    const { token } = await ambit.open();
    const target = { kind: 'http', url: ambit.mcp('asking'), token } as const;
    const clients = [await connectV1(target, person()), await connectV1(target, person())];
    const said = await Promise.all(clients.map((client, index) => client.call('ask', { name: `call ${index}` })));
    const asked = clients.map((client) => client.person.asked.length);
    await Promise.all(clients.map((client) => client.leave()));
    expect({ said, asked }).toEqual({ said: ['call 0', 'call 1'], asked: [1, 1] });
  });
});
