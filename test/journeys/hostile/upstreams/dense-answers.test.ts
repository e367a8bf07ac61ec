import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../../../src/public/create-gateway.ts';
import { createTestGateway } from '../../../../src/public/testing/index.ts';
import { counts } from '../../../proof.ts';
import { fixtureServer } from '../start-watched-ambit.ts';

let gateway: EmbeddedGateway;
beforeAll(async () => {
  gateway = await createTestGateway({
    servers: { big: fixtureServer('answers-big.js'), quick: fixtureServer('answers-big.js') },
  });
});
afterAll(() => gateway.close());

async function enter(server: string): Promise<Client> {
  const { id } = await gateway.createSession({ trustLevel: 'direct' });
  const client = new Client({ name: 'one', version: '1' });
  await client.connect(gateway.connect(id, server) as Parameters<Client['connect']>[0]);
  return client;
}

/** How long each of these calls took, the longest last. */
async function timesOf(client: Client, isOver: () => boolean): Promise<number[]> {
  const times: number[] = [];
  while (!isOver()) {
    const began = performance.now();
    const answer = await client.callTool({ name: 'echo', arguments: { text: 'mine' } });
    expect(answer.content).toEqual([{ type: 'text', text: 'mine' }]);
    times.push(performance.now() - began);
  }
  return times.sort((one, other) => one - other);
}

test('dense answers to one session are refused, and another session is served meanwhile', async () => {
  const [greedy, other] = await Promise.all([enter('big'), enter('quick')]);
  let isOver = false;
  const times = timesOf(other, () => isOver);
  for (let round = 0; round < counts(2, 100); round++) {
    const answer = await greedy.callTool({ name: 'big', arguments: { bytes: counts(3, 15) << 20, shape: 'values' } });
    expect(answer).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/more than 1048576 values/) }],
    });
  }
  isOver = true;
  const all = await times;
  const at = (part: number) => (all[Math.floor((all.length - 1) * part)] ?? 0).toFixed(1);
  process.stdout.write(
    `\nBeside dense answers: ${all.length} calls, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms\n`,
  );
  expect(all.length).toBeGreaterThan(0);
});
