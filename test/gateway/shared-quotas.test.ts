import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ConfigInput } from '../../src/config/schema/schema.ts';
import {
  answerCorrectly,
  sendJson,
  startUpstream,
  type Upstream,
} from '../journeys/hostile/upstreams/start-http-upstream.ts';
import { callModern, openClient, type PostAnswer, readOutcome } from '../journeys/json-mcp-client.ts';
import { counts, proof } from '../proof.ts';
import { createSharedData, type ServedGateway } from './shared-data.ts';
import { createPairs, storeKinds } from './shared-stores.ts';

const data = createSharedData();
const openPair = createPairs(data);
let upstream: Upstream;
/** Calls of `hold` under way, which end when told. */
const held: (() => void)[] = [];

beforeAll(async () => {
  upstream = await startUpstream({
    hold: ({ id }, response) => void held.push(() => sendJson(response, answerCorrectly(id, 'held'))),
    large: ({ id }, response) => sendJson(response, answerCorrectly(id, 'x'.repeat(5000))),
  });
});
afterAll(() => upstream.stop());

let storeNumber = 0;
async function pair(kind: string, quotas: ConfigInput['quotas']): Promise<readonly [ServedGateway, ServedGateway]> {
  const path = join(data.folder, 'shared');
  mkdirSync(path, { recursive: true });
  const config = {
    servers: { it: { url: upstream.url }, two: { url: upstream.url } },
    workspaces: { w: { path } },
    ...(quotas && { quotas }),
  };
  return openPair(kind, config, `quotas-${++storeNumber}`);
}

const call = (at: ServedGateway, token: string, tool = 'say', server = 'it') => callModern(at.mcp(server), token, tool);
const refusal = (said: PostAnswer) => said.messages.at(-1)?.result?.['_meta'] as Record<string, unknown> | undefined;
const tally = (said: readonly PostAnswer[]) => said.map(readOutcome).filter((each) => each === 'right').length;

describe.each(storeKinds)('quotas of two gateways on one %s store', (kind) => {
  test('L11: session, user and workspace together, over all servers, however the calls come', async () => {
    const rounds = counts(1, 20);
    for (let round = 0; round < rounds; round++) {
      const gateways = await pair(kind, {
        session: { totalCalls: 10 },
        user: { totalCalls: 15 },
        workspace: { totalCalls: 22 },
      });
      const [here] = gateways;
      const drafts = [
        { userId: 'ada', workspaceId: 'w' },
        { userId: 'ada', workspaceId: 'w' },
        { userId: 'bob', workspaceId: 'w' },
      ];
      const sessions = await Promise.all(drafts.map((draft) => here.open(draft)));
      const said = await Promise.all(
        sessions.map(({ token }) =>
          Promise.all(
            Array.from({ length: 20 }, (_, at) =>
              call(gateways[at % 2] as ServedGateway, token, 'say', at % 3 === 0 ? 'two' : 'it'),
            ),
          ),
        ),
      );
      const made = said.map(tally) as [number, number, number];
      expect(made.reduce((a, b) => a + b)).toBe(22);
      expect(Math.max(...made)).toBeLessThanOrEqual(10);
      expect(made[0] + made[1]).toBeLessThanOrEqual(15);
      const scopes = new Set(
        said.flat().flatMap((each) => /quotas\.(\w+)\./.exec(JSON.stringify(refusal(each)))?.[1] ?? []),
      );
      for (const scope of scopes) expect(['session', 'user', 'workspace']).toContain(scope);
      for (const each of gateways) await each.close();
    }
  });

  test('L11: a refusal says by which quota, why, and when to come back; in both eras', async () => {
    const [here, there] = await pair(kind, { session: { callsPerMinute: 3 } });
    const { token } = await here.open();
    const client = await openClient(here.mcp('it'), token);
    for (const at of [here, there, here]) expect(readOutcome(await call(at, token))).toBe('right');
    for (const refused of [await call(there, token), await client.call('say')]) {
      const { result } = refused.messages.at(-1) ?? {};
      expect(result).toMatchObject({
        isError: true,
        _meta: {
          'ambit/error': {
            code: 'QUOTA_EXCEEDED',
            rule: 'quotas.session.callsPerMinute',
            hint: expect.stringMatching(/^Try again in \d+ s\.$/),
            retryAfterMs: expect.any(Number),
          },
        },
      });
      expect(result?.content?.[0]?.text).toMatch(
        /^QUOTA_EXCEEDED: The session has reached its limit of 3 calls per minute\./,
      );
      const { retryAfterMs } = (refusal(refused)?.['ambit/error'] ?? {}) as { retryAfterMs?: number };
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(20_000);
    }
    // What is not a call of a tool is not counted.
    expect((await client.send({ id: 9, method: 'ping' })).status).toBe(200);
  });

  test('L11: calls at a time are counted over both, and free the moment they end', async () => {
    const [here, there] = await pair(kind, { session: { callsPerMinute: 6000 }, user: { concurrentCalls: 2 } });
    const [one, two] = [await here.open({ userId: 'ada' }), await there.open({ userId: 'ada' })];
    const waiting = [call(here, one.token, 'hold'), call(there, two.token, 'hold')];
    while (held.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    for (const at of [here, there]) {
      expect(JSON.stringify(refusal(await call(at, one.token)))).toContain('quotas.user.concurrentCalls');
    }
    for (const end of held.splice(0)) end();
    expect((await Promise.all(waiting)).map(readOutcome)).toEqual(['held', 'held']);
    for (let i = 0; i < 6; i++) {
      expect(readOutcome(await call(i % 2 === 0 ? here : there, one.token))).toBe('right');
      expect(readOutcome(await call(i % 2 === 0 ? there : here, two.token))).toBe('right');
    }
  });

  test('L11: bytes count with what was answered, wherever it was', async () => {
    const [here, there] = await pair(kind, { session: { totalBytes: 8000 } });
    const { id, token } = await here.open();
    const said = [
      await call(here, token, 'large'),
      await call(there, token, 'large'),
      await call(here, token, 'large'),
    ];
    expect(said.map((each) => each.messages.at(-1)?.result?.isError ?? false)).toEqual([false, false, true]);
    expect(refusal(said[2] as PostAnswer)?.['ambit/error']).toMatchObject({ rule: 'quotas.session.totalBytes' });
    const use = await here.gateway.usage(id);
    expect(use).toMatchObject({ calls: 2, underWay: 0 });
    expect(use?.bytes).toBeGreaterThan(10_000);
  });

  // It takes a second and more, because a gateway waits for the report of the other.
  if (proof || kind === storeKinds.at(-1)) {
    test('L13: session_info and the operator see exact counts at both, which never become fewer', async () => {
      const [here, there] = await pair(kind, {});
      const { id, token } = await here.open();
      let made = 0;
      const expectUse = async (at: ServedGateway, underWay: number) => {
        made++;
        const { result } = (await call(at, token, 'session_info', 'ambit')).messages.at(-1) ?? {};
        expect(result?.structuredContent).toMatchObject({ use: { calls: made, underWay: underWay + 1 } });
      };
      // Calls in a row reserve more and more.
      for (let i = 0; i < 20; i++, made++) expect(readOutcome(await call(here, token))).toBe('right');
      await expectUse(here, 0);
      await Promise.all(Array.from({ length: 20 }, (_, i) => call(i % 2 === 0 ? here : there, token)));
      made += 20;
      const waiting = [call(here, token, 'hold'), call(here, token, 'hold')];
      made += 2;
      while (held.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      await expectUse(there, 2);
      held.shift()?.();
      await Promise.race(waiting);
      await expectUse(there, 1);
      held.shift()?.();
      await Promise.all(waiting);
      for (const each of [here, there])
        expect(await each.gateway.usage(id)).toMatchObject({ calls: made, underWay: 0 });
    });
  }
});
