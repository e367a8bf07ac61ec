import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import type { Exchange } from '../http-exchange.ts';
import { callModern, connectHandshake, readAnswer, readToolText } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

const kinds = ['sampling', 'elicitation', 'roots'] as const;
type Kind = (typeof kinds)[number];

/** The inside of each question, as a server writes it. */
const questions: Record<Kind, string> = {
  sampling: '"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}',
  elicitation: '"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}',
  roots: '"method":"roots/list","params":{}',
};
const capabilities = '{"sampling":{},"elicitation":{},"roots":{}}';
const nothing = { sampling: false, elicitation: false, roots: false };
const all = { sampling: true, elicitation: true, roots: true };

let attacked: RecordedGateway;
let token: string;

beforeAll(async () => {
  const pipe = { ...stdioRecorder, context: 'none' };
  attacked = await startRecordedGateway((url) => ({
    servers: {
      'pipe-handshake': { ...pipe, push: nothing, era: 'handshake' },
      'pipe-modern': { ...pipe, push: nothing, era: 'modern' },
      'web-handshake': { url, context: 'none', push: nothing, era: 'handshake' },
      'web-modern': { url, context: 'none', push: nothing, era: 'modern' },
      ...Object.fromEntries(
        kinds.map((kind) => [`web-${kind}`, { url, context: 'none', push: { ...all, [kind]: false } }]),
      ),
    },
  }));
  ({ token } = await attacked.open());
});

afterAll(() => attacked?.stop());

const say = (lines: readonly string[]) => JSON.stringify({ lines });
const done = '{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}';

/** All three questions as requests of the server, then the answer of the call. */
function pushesOf(marker: string): string {
  return say([...kinds.map((kind) => `{"jsonrpc":"2.0","id":"${marker}-${kind}",${questions[kind]}}`), done]);
}

/** One question inside the answer of the call, as servers of the modern era ask. */
function asksInside(kind: Kind): string {
  const result = `"resultType":"input_required","inputRequests":{"q":{${questions[kind]}}},"requestState":"s"`;
  return say([`{"jsonrpc":"2.0","id":$ID,"result":{${result}}}`]);
}

/** The answers to the server's own requests. Each refusal is a message of its own, so it is waited for. */
async function toldTo(name: string, marker: string, callRecorded: () => Promise<Exchange>): Promise<unknown[]> {
  const look = async () => {
    const received =
      name === 'web'
        ? (await attacked.recordedOverHttp()).map(({ body }) => body)
        : (JSON.parse(await readToolText(callRecorded())) as string[]);
    const told = received.filter((line) => line.includes(`"id":"${marker}-`)).sort();
    expect(told).toHaveLength(kinds.length);
    return told.map((line) => JSON.parse(line) as unknown);
  };
  return vi.waitFor(look, { timeout: 20_000 });
}

const refusals = (marker: string) =>
  [...kinds].sort().map((kind) => ({
    jsonrpc: '2.0',
    id: `${marker}-${kind}`,
    error: { code: 1032, message: expect.stringMatching(/^PUSH_DENIED: /) },
  }));

describe.each(['pipe', 'web'])('a server that may ask for nothing, by %s', (name) => {
  test('is refused when it pushes to a handshake-era client, which hears only the answer of its call', async () => {
    const server = attacked.ambit.mcp(`${name}-handshake`);
    const client = await connectHandshake(server, token, '2025-11-25', capabilities);
    const heard = await (await client.call('say', pushesOf(`${name}-1`))).rest();
    expect(heard.map((text) => JSON.parse(text) as unknown)).toEqual([
      expect.objectContaining({ id: 1, result: expect.anything() }),
    ]);
    expect(heard[0]).toContain('"text":"done"');
    expect(await toldTo(name, `${name}-1`, () => client.call('recorded', '{}'))).toEqual(refusals(`${name}-1`));
  });

  test('is refused when it pushes to a modern client, which is not asked to answer', async () => {
    const server = attacked.ambit.mcp(`${name}-handshake`);
    const heard = await (await callModern(server, token, 'say', pushesOf(`${name}-2`))).rest();
    expect(heard).toHaveLength(1);
    expect(heard[0]).toContain('"text":"done"');
    expect(heard[0]).not.toContain('inputRequests');
    expect(await toldTo(name, `${name}-2`, () => callModern(server, token, 'recorded', '{}'))).toEqual(
      refusals(`${name}-2`),
    );
  });

  test.each(kinds)('cannot ask a client of either era for %s inside an answer', async (kind) => {
    const server = attacked.ambit.mcp(`${name}-modern`);
    const client = await connectHandshake(server, token, '2025-11-25', capabilities);
    for (const sent of [
      await callModern(server, token, 'say', asksInside(kind)),
      await client.call('say', asksInside(kind)),
    ]) {
      const heard = await sent.rest();
      expect(heard).toHaveLength(1);
      expect(JSON.parse(heard[0] ?? '')).toMatchObject({
        id: 1,
        result: {
          isError: true,
          _meta: { 'ambit/error': { code: 'PUSH_DENIED', rule: `servers.${name}-modern.push.${kind}` } },
        },
      });
    }
  });
});

test('a server that may ask for nothing cannot put its question into a notification either', async () => {
  const params = `{"taskId":"task of harmless","status":"input_required","inputRequests":{"q":{${questions.sampling}}}}`;
  const notification = (text: string) => `{"jsonrpc":"2.0","method":"notifications/tasks","params":${text}}`;
  const lines = say([notification(params), notification('{"taskId":"task of harmless"}'), done]);
  const server = attacked.ambit.mcp('pipe-modern');
  await (await callModern(server, token, 'task', '{"marker":"harmless"}')).rest();
  const heard = await (await callModern(server, token, 'say', lines)).rest();
  expect(heard).toHaveLength(2);
  expect(heard.join()).not.toContain('sampling');
});

describe.each(kinds)('a server that may ask for all but %s', (denied) => {
  test.each(kinds)('asks for %s', async (kind) => {
    const { result } = await readAnswer(
      callModern(attacked.ambit.mcp(`web-${denied}`), token, 'say', asksInside(kind)),
    );
    expect(result?.['inputRequests'] === undefined).toBe(kind === denied);
    expect(result?.['isError'] === true).toBe(kind === denied);
  });
});
