import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { callModern, type JsonClient, openClient, type PostAnswer, readOutcome } from '../../json-mcp-client.ts';
import { mutateText, mutation } from '../clients/mutations.ts';
import { expectProperAnswer } from '../clients/proper-answer.ts';
import { variantsOf } from '../clients/wrong-types.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

let ambit: WatchedAmbit;
let client: JsonClient;
type Piece = string | { readonly base64: string };

beforeAll(async () => {
  ambit = await startWatchedAmbit({
    servers: {
      told: fixtureServer('says-what-it-is-told.js'),
      impatient: fixtureServer('says-what-it-is-told.js', { timeoutSeconds: 0.2 }),
      prints: fixtureServer('prints-before-it-speaks.js'),
    },
  });
  client = await openClient(ambit.mcp('told'), ambit.token);
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

const answer = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}\n';

const eras = {
  modern: (args: Record<string, unknown>, id?: unknown) =>
    callModern(ambit.mcp('told'), ambit.token, 'say', args, { id }),
  handshake: (args: Record<string, unknown>, id?: unknown) => client.call('say', args, id),
};

describe.each(Object.entries(eras))('%s era', (_era, say) => {
  test.each([
    ['inputRequests', 'UPSTREAM_TOO_LARGE'],
    ['_META', 'UPSTREAM_TOO_LARGE'],
    ['structuredContent', 'UPSTREAM_TOO_LARGE'],
  ])('S8: 50,001 keys in %s fail that call alone', async (member, code) => {
    const keys = Array.from({ length: 50_001 }, (_, index) => `"${index}":0`).join(',');
    const dense = `{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"${member}":{${keys}}}}\n`;
    expect(readOutcome(await say({ pieces: [dense] }))).toBe(`!${code}`);
  });

  test.each<[string, Piece[]]>([
    ['answers to ids nobody gave', ['{"jsonrpc":"2.0","id":999999,"result":{}}\n', answer]],
    ['ids of another type', ['{"jsonrpc":"2.0","id":"$ID","result":{}}\n', answer]],
    ['ids that are almost right', ['{"jsonrpc":"2.0","id":$ID.0,"result":{}}\n', answer]],
    ['null ids', ['{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}\n', answer]],
    ['no ids', ['{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}\n{"jsonrpc":"2.0","result":{}}\n', answer]],
    ['the same answer again', [answer, answer, answer]],
    ['another answer afterwards', [answer, answer.replace('right', 'wrong')]],
    ['a result and an error at once', ['{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":1}}\n', answer]],
    ['an id twice', ['{"jsonrpc":"2.0","id":1,"id":$ID,"result":{}}\n', answer]],
    ['words between messages', ['Listening…\n', answer, 'Done.\n']],
    ['JSON that is no message', ['{"level":30}\n[1]\n"x"\nnull\n5\n', answer]],
    ['a batch', [`[${answer.trim()}]\n`, answer]],
    ['binary garbage', [{ base64: Buffer.from([0, 255, 254, 10, 128, 10, 13, 10]).toString('base64') }, answer]],
    ['bytes that are no UTF-8 in an answer', [{ base64: 'eyJqc29ucnBjIjoi/yJ9Cg==' }, answer]],
    ['CRLF', [answer.replace('\n', '\r\n')]],
    ['blank lines', ['\n\r\n\n   \n', answer, '\n\n']],
    ['blanks around', [`   ${answer.trim()}   \n`]],
    ['100,000 open brackets', [`${'['.repeat(100_000)}\n${'{"a":'.repeat(100_000)}\n`, answer]],
    ['an unknown notification', ['{"jsonrpc":"2.0","method":"notifications/of/its/own","params":{"a":1}}\n', answer]],
    [
      'progress nobody asked for',
      ['{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID}}\n', answer],
    ],
    [
      'a cancellation of what it never asked',
      ['{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}\n', answer],
    ],
  ])('%s: the call still gets its own answer', async (_what, pieces) => {
    const said = await say({ pieces }, 'mine');
    expect([said.messages.at(-1)?.id, readOutcome(said)]).toEqual(['mine', 'right']);
  });

  // Each of them costs a new process: the proof tries them all.
  test.each(
    [
      ['half a message, then it leaves', ['{"jsonrpc":"2.0","id":$ID,"res'], 0],
      ['half a message, then it fails', ['{"jsonrpc":"2.0","id":$ID,"res'], 1],
      ['nothing, then it leaves', [''], 0],
    ].slice(0, counts(1, 3)),
  )('%s: UPSTREAM_FAILED, and the next call is served', async (_what, pieces, leave) => {
    expect(readOutcome(await say({ pieces, leave }))).toBe('!UPSTREAM_FAILED');
    expect(readOutcome(await say({ pieces: [answer] }))).toBe('right');
  });

  test('an answer without a line end counts when the process has left', async () => {
    expect(readOutcome(await say({ pieces: [answer.trim()], leave: 0 }))).toBe('right');
    expect(readOutcome(await say({ pieces: [answer] }))).toBe('right');
  });

  test('answers with every value of every wrong type', async () => {
    const related = { 'io.modelcontextprotocol/related-task': { taskId: 'x' } };
    const meta = { 'ambit/x': 1, 'io.modelcontextprotocol/subscriptionId': 3, ...related };
    const messages = [
      { jsonrpc: '2.0', id: '$ID', result: { requestState: 's', taskId: 't', resultType: 'task', _meta: meta } },
      { jsonrpc: '2.0', id: '$ID', error: { code: -32000, message: 'm', data: {} } },
      { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: '$ID', progress: 1, _meta: meta } },
      { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'd', _meta: meta } },
      { jsonrpc: '2.0', method: 'notifications/resources/updated', params: { uri: 'file:///r' } },
      { jsonrpc: '2.0', method: 'notifications/tasks/status', params: { taskId: 't', status: 'working' } },
      { jsonrpc: '2.0', id: 'theirs', method: 'roots/list', params: { _meta: { progressToken: 1 } } },
    ];
    const variants = messages.flatMap((message) => [...variantsOf(message)]);
    for (let from = 0; from < variants.length; from += 100) {
      const lines = variants.slice(from, from + 100).map(({ text }) => `${text.replaceAll('"$ID"', '$ID')}\n`);
      expectUnharmed(await say({ pieces: [...lines, answer] }));
    }
  });

  test('messages damaged in any way', async () => {
    const texts = [
      answer,
      '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d","_meta":{"ambit/x":1}}}\n',
      '{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{"message":"m","_meta":{"progressToken":1}}}\n',
    ];
    const damaged = fc
      .tuple(fc.constantFrom(...texts), fc.array(mutation, { minLength: 1, maxLength: 4 }))
      .map(([text, mutations]) => ({ base64: mutateText(text, mutations).toString('base64') }));
    await fc.assert(
      fc.asyncProperty(fc.array(damaged, { minLength: 1, maxLength: 10 }), async (pieces) => {
        expectUnharmed(await say({ pieces: [...pieces, '\n', answer] }));
      }),
      { numRuns: counts(20, 5000) },
    );
  });

  /** The message may have been an answer after all, but only to this call. */
  function expectUnharmed(said: PostAnswer): void {
    expectProperAnswer(ambit, said, 'noise');
    expect(said.messages.at(-1)?.id).toBe(1);
    // Damaged, its name may be another, and then it is none of ours.
    for (const message of said.messages) expect(JSON.stringify(message)).not.toMatch(/"_meta":\{[^}]*"ambit\/x"/);
  }
});

test.each(['x\n', '{\n'].slice(0, counts(1, 2)))(
  'S7: a flood of %j ends the server, and its callers are told why',
  async (line) => {
    const said = await eras.modern({ pieces: [line.repeat(100_000)] });
    expect(readOutcome(said)).toBe('!UPSTREAM_FAILED');
    expect(JSON.stringify(said.messages)).toContain('wrote too many lines to stdout that are not MCP messages');
    expect(readOutcome(await eras.modern({ pieces: [answer] }))).toBe('right');
  },
);

test('a server that never says anything but nonsense: UPSTREAM_TIMEOUT', async () => {
  const said = await callModern(ambit.mcp('impatient'), ambit.token, 'say', { pieces: ['{"jsonrpc":"2.0"}\n'] });
  expect(readOutcome(said)).toBe('!UPSTREAM_TIMEOUT');
});

test('a server that prints before it speaks is served in both eras', async () => {
  expect(readOutcome(await callModern(ambit.mcp('prints'), ambit.token, 'echo', { text: 'hi' }))).toBe('hi');
  const printing = await openClient(ambit.mcp('prints'), ambit.token);
  expect(readOutcome(await printing.call('echo', { text: 'hi' }))).toBe('hi');
});
