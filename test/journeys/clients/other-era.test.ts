import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { ambitBin, fileFlags } from '../start-ambit.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../start-embedded-ambit.ts';
import { clientNames, clients, connectClient } from './connect/connect-client.ts';
import { modernOnly, readRefusal } from './connect/connection-refusal.ts';
import type { Target } from './connect/mcp-client.ts';

const server = join(import.meta.dirname, 'modern-only.js');
let folder: string;
let ambit: EmbeddedAmbit;
let ways: Record<string, Target>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-era-'));
  ambit = await startEmbeddedAmbit({ servers: { found: started(), told: { ...started(), era: 'modern' } } });
  const { token } = await ambit.open();
  ways = {
    'without Ambit': { kind: 'stdio', args: [server] },
    'ambit run': {
      kind: 'stdio',
      args: [ambitBin, 'run', '--trust', 'direct', ...fileFlags(folder), '--', process.execPath, server],
    },
    'ambit serve': { kind: 'http', url: ambit.mcp('found'), token },
    'ambit serve, era configured': { kind: 'http', url: ambit.mcp('told'), token },
  };
});

afterAll(async () => {
  await ambit?.stop();
  await rm(folder, { recursive: true, force: true });
});

function started() {
  return { command: process.execPath, args: [server] };
}

describe('a server that has left the handshake behind', () => {
  test('tells a client that knows only the handshake so, without Ambit', async () => {
    expect(await readRefusal(connectClient('v1', ways['without Ambit']!, folder))).toMatchObject(modernOnly);
  });

  // Each client and each way has its turn; the proof has every client by every way.
  const pairs = [
    ['v1', 'ambit run'],
    ['legacy', 'ambit serve'],
    ['auto', 'ambit serve, era configured'],
    ['pinned', 'ambit serve'],
  ] as const;
  const all = clientNames.flatMap((client) =>
    (['ambit run', 'ambit serve', 'ambit serve, era configured'] as const).map((way) => [client, way] as const),
  );

  test.each(proof ? all : pairs)('works with client %s: %s', async (client, way) => {
    const connected = await connectClient(client, ways[way]!, folder);
    expect(connected.era).toBe(clients[client].era);
    expect(await connected.call('echo', { text: 'there and back' })).toBe('there and back');
    await connected.close();
  });
});
