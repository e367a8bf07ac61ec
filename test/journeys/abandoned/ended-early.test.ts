import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../sandbox/tagged-processes.ts';
import {
  maxWaitMs,
  type ProbedAmbit,
  startProbedAmbit,
  upstreamProgram,
  waitUntilNothingIsLeft,
} from '../start-probed-ambit.ts';
import { connectRawClient, type Endpoint, readRefusalCode } from './raw-client.ts';

let folder: string;
let ambit: ProbedAmbit;
let upstream: Server;
const methods: string[] = [];
let discover: () => void = () => {};
let discoverAsked: () => void = () => {};
const asked = new Promise<void>((resolve) => {
  discoverAsked = resolve;
});

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-early-'));
  upstream = createServer(answerWhenTold).listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  const { port } = upstream.address() as AddressInfo;
  const args = [upstreamProgram, '--discover-when', join(folder, 'discover')];
  ambit = await startProbedAmbit({
    servers: { slow: { command: process.execPath, args }, far: { url: `http://127.0.0.1:${port}/mcp` } },
  });
});
afterAll(async () => {
  await ambit?.stop();
  upstream?.closeAllConnections();
  upstream?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Notes what it is asked, and says which era it speaks only when `discover` is called. */
async function answerWhenTold(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id, method } = (await json(request)) as { id: number; method: string };
  methods.push(method);
  if (method !== 'server/discover') return;
  discover = () => {
    response.setHeader('content-type', 'application/json');
    const supportedVersions = ['2026-07-28'];
    const result = { resultType: 'complete', supportedVersions, capabilities: {}, ttlMs: 0, cacheScope: 'private' };
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  };
  discoverAsked();
}

async function newDoor(server: string): Promise<Endpoint & { readonly id: string }> {
  const { id, token } = await ambit.open();
  return { id, token, url: ambit.mcp(server) };
}

describe('a session that ends before its upstream has said which era it speaks', () => {
  it.skipIf(process.platform !== 'linux')(
    'has its calls answered, ends the process, and leaves no mark on other sessions',
    async () => {
      const door = await newDoor('slow');
      const calls = [1, 2, 3].map(async () => (await connectRawClient('modern', door)).call('whoami').answered);
      await until(
        () => ambit.journal().some(({ event }) => event === 'stderr'),
        maxWaitMs,
        () => 'the process is up',
      );
      await ambit.end(door.id);
      expect((await Promise.all(calls)).map(readRefusalCode)).toEqual(calls.map(() => 'SESSION_ENDED'));
      await waitUntilNothingIsLeft(ambit.dataDir);
      writeFileSync(join(folder, 'discover'), '');
      const other = await connectRawClient('modern', await newDoor('slow'));
      expect((await other.whoami()).handshakes).toBe(0);
    },
  );

  it('has its calls answered over HTTP, and none of them reaches the upstream any more', async () => {
    const door = await newDoor('far');
    const call = (await connectRawClient('modern', door)).call('whoami');
    await asked;
    await ambit.end(door.id);
    discover();
    expect(readRefusalCode(await call.answered)).toBe('SESSION_ENDED');
    expect(methods).toEqual(['server/discover']);
  });
});
