import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../runners/tagged-processes.ts';
import { type ProbedAmbit, patienceMs, startProbedAmbit, untilNothingIsLeft, upstreamProgram } from './probed-ambit.ts';
import { type Door, enter, refusalIn } from './visitor.ts';

let folder: string;
let ambit: ProbedAmbit | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-early-'));
});
afterEach(async () => {
  await ambit?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function newDoor(server: string): Promise<Door & { readonly id: string }> {
  const { id, token } = (await ambit?.open()) ?? { id: '', token: '' };
  return { id, token, url: ambit?.mcp(server) ?? '' };
}

describe.skipIf(process.platform !== 'linux')(
  'a session that ends before its upstream has said which era it speaks',
  () => {
    it('has its calls answered, ends the process, and leaves no mark on other sessions', async () => {
      const file = join(folder, 'discover');
      const args = [upstreamProgram, '--discover-when', file];
      ambit = await startProbedAmbit({ servers: { slow: { command: process.execPath, args } } });
      const { dataDir } = ambit;
      const door = await newDoor('slow');
      const calls = [1, 2, 3].map(async () => (await enter('modern', door)).call('whoami').answered);
      await until(
        () => ambit?.journal().some(({ event }) => event === 'stderr') === true,
        patienceMs,
        () => 'the process is up',
      );
      await ambit.end(door.id);
      expect((await Promise.all(calls)).map(refusalIn)).toEqual(calls.map(() => 'SESSION_ENDED'));
      await untilNothingIsLeft(dataDir);
      writeFileSync(file, '');
      const other = await enter('modern', await newDoor('slow'));
      expect((await other.whoami()).handshakes).toBe(0);
    });
  },
);

describe('a session that ends before an upstream over HTTP has said which era it speaks', () => {
  let upstream: Server;
  afterEach(() => upstream.closeAllConnections());

  it('has its calls answered, and none of them reaches the upstream any more', async () => {
    const methods: string[] = [];
    let discover: () => void = () => {};
    const asked = new Promise<void>((resolveAsked) => {
      upstream = createServer(async (request, response) => {
        const { id, method } = (await json(request)) as { id: number; method: string };
        methods.push(method);
        const answer = () => {
          response.setHeader('content-type', 'application/json');
          const supportedVersions = ['2026-07-28'];
          const result = {
            resultType: 'complete',
            supportedVersions,
            capabilities: {},
            ttlMs: 0,
            cacheScope: 'private',
          };
          response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
        };
        if (method === 'server/discover') {
          discover = answer;
          resolveAsked();
        }
      }).listen(0, '127.0.0.1');
    });
    await until(
      () => upstream.listening,
      patienceMs,
      () => 'the upstream listens',
    );
    const { port } = upstream.address() as AddressInfo;
    ambit = await startProbedAmbit({ servers: { far: { url: `http://127.0.0.1:${port}/mcp` } } });
    const door = await newDoor('far');
    const call = (await enter('modern', door)).call('whoami');
    await asked;
    await ambit.end(door.id);
    discover();
    expect(refusalIn(await call.answered)).toBe('SESSION_ENDED');
    expect(methods).toEqual(['server/discover']);
  });
});
