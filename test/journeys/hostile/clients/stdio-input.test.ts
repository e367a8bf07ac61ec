import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { until } from '../../../sandbox/tagged-processes.ts';
import { initializeRequest, modernRequest, type RpcMessage } from '../../json-mcp-client.ts';
import { mutateText, mutation } from './mutations.ts';
import { findAnswerId } from './proper-answer.ts';
import { type Run, startRun } from './start-run.ts';
import { variantsOf } from './wrong-types.ts';

let run: Run;
let calls = 0;

beforeAll(async () => {
  run = await startRun();
  await run.say(`${JSON.stringify(initializeRequest())}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n`);
  await run.answer(0);
});
afterEach(() => expectHealthy());
afterAll(() => run?.stop());

/** A call of each era works, and everything said so far was one JSON-RPC message a line. */
async function expectHealthy(): Promise<void> {
  const [first, second] = [`call-${calls++}`, `call-${calls++}`];
  const params = { name: 'echo', arguments: { text: 'still here' } };
  await run.say(`${JSON.stringify(modernRequest(first, 'tools/call', params))}\n`);
  await run.say(`${JSON.stringify({ jsonrpc: '2.0', id: second, method: 'tools/call', params })}\n`);
  for (const id of [first, second]) expect((await run.answer(id)).result?.content?.[0]?.text).toBe('still here');
  for (const line of run.said) expectMessage(line);
  expect(run.errors()).toBe('');
  expect(run.process.exitCode).toBeNull();
}

function expectMessage(line: string): RpcMessage {
  const message = JSON.parse(line) as RpcMessage;
  const forms = [message.method, message.result, message.error].filter((part) => part !== undefined);
  if (message.jsonrpc !== '2.0' || forms.length !== 1) expect.unreachable(line);
  if (/\n\s+at |node:internal|\.[jt]s:\d+/.test(line) || line.includes(run.folder)) expect.unreachable(line);
  return message;
}

test.each([
  ['no JSON', 'hello\n'],
  ['half a message', '{"jsonrpc":"2.0","id":\n'],
  ['two messages on a line', '{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}\n'],
  ['a batch, not negotiated', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n'],
  ['100,000 open brackets', `${'['.repeat(100_000)}\n`],
  ['100,000 nested objects', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}\n`],
  ['bytes that are no UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0x7d, 0x0a])],
  ['a string', '"hello"\n'],
  ['an id twice', '{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\n'],
  ['a key in another spelling', '{"jsonrpc":"2.0","ID":1,"method":"ping"}\n'],
  ['a line over the limit', `{"jsonrpc":"2.0","method":"${'x'.repeat(5 << 20)}"}\n`],
])('%s is answered with an error that belongs to no request', async (_what, bytes) => {
  const complaint = run.complaint();
  await run.say(bytes);
  expect([-32700, -32600]).toContain((await complaint).error?.code);
});

test.each([
  ['params that are no object', '{"jsonrpc":"2.0","id":"ID","method":"ping","params":5}\n'],
  ['another version of JSON-RPC', '{"jsonrpc":"1.0","id":"ID","method":"ping"}\n'],
  ['no method to speak of', '{"jsonrpc":"2.0","id":"ID","method":{}}\n'],
  ['a parameter twice', '{"jsonrpc":"2.0","id":"ID","method":"tools/call","params":{"name":"a","name":"b"}}\n'],
])('%s: the error carries the id, so that nobody waits for ever', async (_what, bytes) => {
  const id = `broken-${calls++}`;
  await run.say(bytes.replace('ID', id));
  expect((await run.answer(id)).error?.code).toBe(-32600);
});

test('blank lines, line ends of every kind and blanks around a message do no harm', async () => {
  await run.say('\n\r\n   \n  {"jsonrpc":"2.0","id":"blank","method":"ping"}  \r\n\n');
  expect((await run.answer('blank')).id).toBe('blank');
});

test('a message that arrives byte by byte is one message', async () => {
  for (const byte of '{"jsonrpc":"2.0","id":"drip","method":"tools/list"}\n') await run.say(byte);
  expect((await run.answer('drip')).result).toBeDefined();
});

test('every value of every wrong type, in both eras', async () => {
  const params = { name: 'echo', arguments: { text: 'hello' }, _meta: { progressToken: 1 } };
  const messages = [
    modernRequest('wrong', 'tools/call', params),
    { jsonrpc: '2.0', id: 'wrong', method: 'tools/call', params },
    { jsonrpc: '2.0', id: 7, result: { roots: [] } },
  ];
  const variants = messages.flatMap((message) => [...variantsOf(message)]);
  const from = run.said.length;
  for (const { text } of variants) await run.say(`${text}\n`);
  const wanted = variants.filter(({ text }) => findAnswerId(text) === 'wrong').length;
  const answers = () =>
    run.said
      .slice(from)
      .map(expectMessage)
      .filter(({ id }) => id === 'wrong');
  // A client with other capabilities gets a process of its own: its answer may come after those of later calls.
  await until(
    () => answers().length >= wanted,
    20_000,
    () => `${answers().length} answers, not ${wanted}`,
  );
  await expectHealthy();
  expect(answers()).toHaveLength(wanted);
});

test('messages damaged in any way', async () => {
  const params = { name: 'echo', arguments: { text: 'héllo' } };
  const texts = [
    JSON.stringify(modernRequest(7, 'tools/call', params)),
    JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params }),
    JSON.stringify({ jsonrpc: '2.0', id: 7, error: { code: 1, message: 'm' } }),
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...texts),
      fc.array(mutation, { minLength: 1, maxLength: 4 }),
      async (text, mutations) => {
        const id = `after-${calls++}`;
        await run.say(mutateText(text, mutations));
        await run.say(`\n${JSON.stringify({ jsonrpc: '2.0', id, method: 'ping' })}\n`);
        await run.answer(id);
      },
    ),
    { numRuns: counts(150, 20_000) },
  );
});
