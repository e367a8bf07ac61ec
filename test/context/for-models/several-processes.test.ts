import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { headerLine } from '../../../src/context/for-models/context-block.ts';
import { connectRawClient, eras } from '../../journeys/abandoned/raw-client.ts';
import {
  answerCorrectly,
  sendJson,
  startUpstream,
  type Upstream,
} from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import { counts, proof } from '../../proof.ts';
import { findRedis, type RedisServer, startRedis } from '../../stores/redis-server.ts';
import { somePolicies } from './governed-gateway.ts';

const program = join(import.meta.dirname, 'served-child.js');
const redisProgram = findRedis();
const rounds = counts(1, 15);

interface Child {
  readonly process: ChildProcess;
  readonly url: string;
  open(): Promise<{ readonly id: string; readonly token: string }>;
  kill(): Promise<void>;
}

describe.skipIf(redisProgram === undefined)('three processes on one Redis', () => {
  let folder: string;
  let redis: RedisServer;
  let upstream: Upstream;
  let children: Child[];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-told-'));
    redis = await startRedis(redisProgram as string);
    upstream = await startUpstream({ say: ({ id }, response) => sendJson(response, answerCorrectly(id, 'said')) });
    children = await Promise.all([start(), start(), start()]);
  });
  afterAll(async () => {
    for (const child of children ?? []) await child.kill();
    await upstream?.stop();
    await redis?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  async function start(): Promise<Child> {
    const config = {
      version: 1,
      store: { kind: 'redis', redis: { url: redis.url } },
      servers: { it: { url: upstream.url } },
      sessions: { defaultTrust: 'direct', maxPerUser: 10_000 },
      quotas: { session: { concurrentCalls: 1000 } },
      governance: somePolicies,
    };
    const child = spawn(process.execPath, [program, folder, JSON.stringify(config)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const [{ url }] = (await once(child, 'message')) as [{ url: string }];
    return {
      process: child,
      url,
      async open() {
        const answer = once(child, 'message');
        child.send({ userId: 'ann' });
        return (await answer)[0] as { id: string; token: string };
      },
      async kill() {
        if (child.exitCode !== null || child.signalCode !== null) return;
        const gone = once(child, 'exit');
        child.kill('SIGKILL');
        await gone;
      },
    };
  }

  /** How many of so many calls at once, spread over the processes, came with the block. */
  async function told(era: (typeof eras)[number], token: string, transportId: string | undefined, calls: number) {
    const answers = Array.from({ length: calls }, async (_, i) => {
      const { url } = children[i % children.length] as Child;
      const visitor = await connectRawClient(era, { url, token }, {}, transportId);
      const { message } = await visitor.call('say').answered;
      const texts = (message?.result?.content ?? []).map(({ text }) => text);
      expect(texts.at(-1)).toBe('said');
      return texts.filter((text) => text.startsWith(headerLine)).length;
    });
    return (await Promise.all(answers)).reduce((sum, each) => sum + each, 0);
  }

  /** As a client of this session finds it: in the handshake era, under its own transport session. */
  async function arrive(era: (typeof eras)[number]): Promise<{ token: string; transportId: string | undefined }> {
    const [first] = children as [Child];
    const { token } = await first.open();
    const { transportId } = await connectRawClient(era, { url: first.url, token });
    return { token, transportId };
  }

  test.each(eras)('G8: 100 first calls at once, in the %s era: one block', async (era) => {
    for (let round = 0; round < rounds; round++) {
      const { token, transportId } = await arrive(era);
      expect(await told(era, token, transportId, 100)).toBe(1);
      expect(await told(era, token, transportId, 6)).toBe(0);
    }
  });

  test.each(proof ? eras : eras.slice(-1))(
    'G8: a process killed in the middle of first calls, in the %s era: at most one repeat',
    async (era) => {
      for (let round = 0; round < rounds; round++) {
        const { token, transportId } = await arrive(era);
        const [victim, ...others] = children as [Child, ...Child[]];
        const url = victim.url;
        const calls = Array.from({ length: 8 }, async () => {
          const visitor = await connectRawClient(era, { url, token }, {}, transportId);
          const { message } = await visitor.call('say').answered;
          return (message?.result?.content ?? []).some(({ text }) => text.startsWith(headerLine)) ? 1 : 0;
        });
        // Whichever answers first is the sign; what the others hear is chance, and that is the point.
        await Promise.race(calls).catch(() => {});
        await victim.kill();
        const before = (await Promise.allSettled(calls)).reduce(
          (n, each) => n + (each.status === 'fulfilled' ? each.value : 0),
          0,
        );
        children = [...others, await start()];
        // A claim of the dead holds nobody up: it is known at once on this machine.
        const after = (await told(era, token, transportId, 3)) + (await told(era, token, transportId, 3));
        expect(before).toBeLessThanOrEqual(1);
        expect(before + after).toBeGreaterThanOrEqual(1);
        expect(after).toBeLessThanOrEqual(1);
      }
    },
  );
});
