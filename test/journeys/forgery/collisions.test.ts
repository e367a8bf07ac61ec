import { afterAll, beforeAll, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import type { Exchange } from '../http-exchange.ts';
import { callModern, connectHandshake } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

const sessionCount = 5;
const callsEach = counts(5, 500);
const atOnce = 10;
const steps = 3;

let attacked: RecordedGateway;

beforeAll(async () => {
  // A session has up to a hundred calls under way here, and no bound but that of the test is to decide.
  attacked = await startRecordedGateway({
    limits: { notificationsPerSecond: 1_000_000 },
    quotas: { session: { callsPerMinute: 1_000_000, concurrentCalls: 1000 } },
  });
});

afterAll(() => attacked?.stop());

type Call = (name: string, args: string, more: { id: string; meta: string }) => Promise<Exchange>;

/** Ten clients of one session: two eras, two transports, several of each. */
async function clientsOf(token: string): Promise<Call[]> {
  const modern =
    (url: string): Call =>
    (name, args, more) =>
      callModern(url, token, name, args, more);
  const { pipe, web } = attacked;
  const shaken = await Promise.all([pipe, pipe, pipe, web, web].map((url) => connectHandshake(url, token)));
  return [modern(pipe), modern(pipe), modern(pipe), modern(web), modern(web), ...shaken.map(({ call }) => call)];
}

// Few ids for many calls, so that every one of them is under way many times over; as numbers and as strings.
const ids = ['1', '2', '"1"', '"a"', '0'];
const tokens = ['1', '"1"', '0', '"a"'];

interface Tally {
  answers: number;
  progress: number;
  readonly crossed: string[];
}

async function oneCall(call: Call, marker: string, turn: number, tally: Tally): Promise<void> {
  const id = ids[turn % ids.length]!;
  const token = tokens[turn % tokens.length]!;
  const args = JSON.stringify({ marker, progress: steps, ms: (turn * 7) % 5 });
  const messages = await (await call('shuffle', args, { id, meta: `"progressToken":${token}` })).rest();
  const answer = messages.pop();
  if (answer?.includes(`"id":${id},`) && answer.includes(`"text":${JSON.stringify(marker)}}`)) tally.answers++;
  else tally.crossed.push(`${marker}: ${answer}`);
  for (const [index, message] of messages.entries()) {
    const params = `"params":{"progressToken":${token},"progress":${index + 1},"message":${JSON.stringify(marker)}}`;
    if (message.includes(params)) tally.progress++;
    else tally.crossed.push(`${marker}: ${message}`);
  }
}

test('fifty clients with the same few ids: not one answer or event crossed or lost', async () => {
  const sessions = await Promise.all(Array.from({ length: sessionCount }, () => attacked.open()));
  const clients = (await Promise.all(sessions.map(({ token }) => clientsOf(token)))).flat();
  expect(clients).toHaveLength(50);
  const tally: Tally = { answers: 0, progress: 0, crossed: [] };
  await Promise.all(
    clients.map(async (call, client) => {
      let next = 0;
      const lane = async () => {
        for (let turn = next++; turn < callsEach; turn = next++) {
          await oneCall(call, `client ${client} call ${turn}`, turn, tally);
        }
      };
      await Promise.all(Array.from({ length: atOnce }, lane));
    }),
  );
  const total = clients.length * callsEach;
  expect(tally.crossed.slice(0, 5)).toEqual([]);
  expect(tally).toMatchObject({ answers: total, progress: total * steps });
});
