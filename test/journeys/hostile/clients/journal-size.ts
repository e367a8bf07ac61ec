import { statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { callModern, modernHeaders, modernRequest, openClient, post, readOutcome } from '../../json-mcp-client.ts';
import { readJournal } from '../../start-probed-ambit.ts';
import type { WatchedAmbit } from '../start-watched-ambit.ts';

export function testJournalSize(given: () => WatchedAmbit): void {
  let ambit: WatchedAmbit;
  let journal: string;
  const long = 'x'.repeat(1 << 20);
  const rounds = counts(1, 200);

  beforeAll(() => {
    ambit = given();
    journal = join(ambit.dataDir, 'journal', 'journal.jsonl');
  });
  // Whatever was sent, every whole line of the journal is JSON.
  afterAll(() => expect(readJournal(ambit.dataDir).length).toBeGreaterThan(0));

  async function growthDuring(work: () => Promise<void>): Promise<number> {
    // An entry of its own before and after: what was recorded earlier has been written by then.
    await ambit.session();
    const before = statSync(journal).size;
    await work();
    await ambit.session();
    return statSync(journal).size - before;
  }

  test('names and methods as long as a message do not fill the journal', async () => {
    const client = await openClient(ambit.mcp('calm'), ambit.token);
    const grown = await growthDuring(async () => {
      for (let round = 0; round < rounds; round++) {
        await client.call(long);
        await client.send({ id: 1, method: long });
        await client.send({ method: `notifications/${long}` });
        await client.send({ id: 1, method: 'resources/read', params: { uri: long } });
        const request = modernRequest(1, 'tasks/list', { name: long });
        await post(ambit.mcp('calm'), ambit.token, JSON.stringify(request), modernHeaders('tasks/list'));
      }
    });
    expect(grown).toBeLessThan(rounds * 5 * 8192);
  });

  test('nor do those of an upstream', async () => {
    const line = `${JSON.stringify({ jsonrpc: '2.0', method: `notifications/${long.slice(0, 1 << 19)}`, params: {} })}\n`;
    const answer = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}\n';
    const grown = await growthDuring(async () => {
      for (let round = 0; round < rounds; round++) {
        const said = await callModern(ambit.mcp('told'), ambit.token, 'say', { pieces: [line, line, answer] });
        expect(readOutcome(said)).toBe('right');
      }
    });
    expect(grown).toBeLessThan(rounds * 3 * 8192);
  });
}
