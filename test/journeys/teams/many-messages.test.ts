import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { InboxPage } from '../../../src/sessions/teams/messages.ts';
import { counts, proof } from '../../proof.ts';
import { findRedis, type RedisServer, startRedis } from '../../stores/redis-server.ts';
import { callModern } from '../json-mcp-client.ts';

const program = join(import.meta.dirname, 'team-gateway.js');
const redisProgram = findRedis();
const memberCount = 20;
const messagesEach = counts(10, 50);
const total = memberCount * messagesEach;
let folder: string;
let redis: RedisServer | undefined;
const children: ChildProcess[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-messages-'));
  if (redisProgram !== undefined) redis = await startRedis(redisProgram);
});
afterAll(async () => {
  await Promise.all(children.map(kill));
  await redis?.remove();
  rmSync(folder, { recursive: true, force: true });
});

interface GatewayProcess {
  readonly child: ChildProcess;
  readonly url: string;
}

interface TeamMember {
  readonly index: number;
  readonly id: string;
  readonly token: string;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

async function startGateway(dataDir: string, store: object): Promise<GatewayProcess> {
  const garden = join(folder, 'garden');
  mkdirSync(garden, { recursive: true });
  const config = { version: 1, store, workspaces: { garden: { path: garden } } };
  const child = spawn(process.execPath, [program, dataDir, JSON.stringify(config)], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  children.push(child);
  const [{ url }] = (await once(child, 'message')) as [{ url: string }];
  return { child, url: `${url}/mcp/ambit` };
}

async function openMember({ child }: GatewayProcess, index: number): Promise<TeamMember> {
  const opened = once(child, 'message');
  child.send({ name: `member-${index}`, userId: 'ada', workspaceId: 'garden', trustLevel: 'sandboxed' });
  const [session] = (await opened) as [Omit<TeamMember, 'index'>];
  return { index, ...session };
}

const allStores = [
  { kind: 'sqlite', gateways: 2 },
  ...(redisProgram === undefined ? [] : [{ kind: 'redis', gateways: 3 }]),
];
/** Processes take long to start, so only the proof does it with both. */
const stores = proof ? allStores : allStores.slice(-1);

test.each(stores)(
  'P13, L16: of many messages over $gateways gateways on $kind, one killed in the middle, none is lost, and order is kept',
  async ({ kind, gateways: count }) => {
    const store = kind === 'redis' ? { redis: { url: redis?.url } } : { kind };
    // Processes on one machine share the file of the store.
    const dataDirs = Array.from({ length: count }, (_, index) =>
      join(folder, kind === 'redis' ? `${kind}-${index}` : kind),
    );
    const gateways: GatewayProcess[] = [];
    gateways.push(...(await Promise.all(dataDirs.map((dataDir) => startGateway(dataDir, store)))));
    const [first, victim] = gateways as [GatewayProcess, GatewayProcess];
    const members: TeamMember[] = [];
    for (let index = 0; index < memberCount; index++) members.push(await openMember(first, index));
    const live = () => gateways.filter(({ child }) => child.exitCode === null && child.signalCode === null);
    let sent = 0;

    /** Calls a tool at one of the gateways; at another one if the gateway is killed meanwhile. */
    async function callTool(
      by: TeamMember,
      turn: number,
      name: string,
      args: object,
    ): Promise<Record<string, unknown>> {
      for (let tries = 0; ; tries++) {
        const all = live();
        const { url } = all[(by.index + turn + tries) % all.length] as GatewayProcess;
        const answer = await callModern(url, by.token, name, { ...args }).catch(() => undefined);
        const { structuredContent, content } = answer?.messages.at(-1)?.result ?? {};
        if (structuredContent !== undefined) return structuredContent as Record<string, unknown>;
        // Only a gateway that was killed may leave a call without its answer.
        if (answer !== undefined && answer.messages.length > 0) throw new Error(content?.[0]?.text ?? answer.text);
        expect(victim.child.killed).toBe(true);
      }
    }

    async function sendAll(by: TeamMember): Promise<void> {
      for (let number = 0; number < messagesEach; number++) {
        const to = `member-${(by.index + 1 + (number % (memberCount - 1))) % memberCount}`;
        await callTool(by, number, 'session_send_message', { to, text: JSON.stringify({ by: by.index, number }) });
        sent++;
        if (sent === Math.floor(total / 3)) victim.child.kill('SIGKILL');
      }
    }

    const received = new Map<string, string>();
    const numbers = new Map<string, number[]>();
    const isAcknowledged = new Set<string>();
    const expected = new Set(
      members.flatMap(({ index }) => Array.from({ length: messagesEach }, (_, n) => `${index}/${n}`)),
    );
    let isComplete: () => void = () => {};
    const complete = new Promise<void>((resolve) => {
      isComplete = resolve;
    });

    /** Reads and acknowledges until all members have everything. */
    async function receiveAll(by: TeamMember): Promise<void> {
      let acknowledge: string | undefined;
      for (let turn = 1; expected.size > 0 || acknowledge !== undefined; turn++) {
        const args = { waitSeconds: 1, ...(acknowledge === undefined ? {} : { acknowledge }) };
        const { messages } = (await callTool(by, turn, 'session_inbox', args)) as unknown as InboxPage;
        if (acknowledge !== undefined)
          for (const [id, to] of received) if (to === `${by.index}`) isAcknowledged.add(id);
        acknowledge = undefined;
        for (const { id, text, from } of messages) {
          const { by: sender, number } = JSON.parse(text) as { by: number; number: number };
          expect(from.sessionId).toBe(members[sender]?.id);
          expect(isAcknowledged.has(`${by.index}:${id}`)).toBe(false);
          received.set(`${by.index}:${id}`, `${by.index}`);
          const row = numbers.get(`${sender}>${by.index}`) ?? [];
          numbers.set(`${sender}>${by.index}`, [...row, number]);
          expected.delete(`${sender}/${number}`);
          acknowledge = id;
        }
        if (expected.size === 0) isComplete();
      }
    }

    await Promise.all([...members.map(sendAll), ...members.map(receiveAll), complete]);
    expect(victim.child.signalCode).toBe('SIGKILL');
    expect(expected).toEqual(new Set());
    // A sender that got no answer sends again, so a number may come twice in a row; it never comes too early or late.
    for (const row of numbers.values()) expect(row).toEqual([...row].sort((a, b) => a - b));
    const surplus = received.size - total;
    expect(surplus).toBeGreaterThanOrEqual(0);
    expect(surplus).toBeLessThanOrEqual(memberCount);
  },
);
