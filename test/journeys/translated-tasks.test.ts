import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { bearerHeader, connectHandshake, type HandshakeClient, readAnswer } from './raw-mcp-client.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from './start-embedded-ambit.ts';

type Task = Record<string, unknown> & { readonly taskId: string };

let ambit: EmbeddedAmbit;
let all: string;
let mine: string;
let theirs: string;

beforeAll(async () => {
  const args = [join(import.meta.dirname, '../fixtures/tasks/ext-tasks-v2.js')];
  ambit = await startEmbeddedAmbit({
    servers: { fresh: { command: process.execPath, args, era: 'modern', push: { elicitation: true } } },
  });
  all = `${ambit.url}/mcp`;
  const sessions = await Promise.all([ambit.open(), ambit.open()]);
  [mine, theirs] = sessions.map(({ token }) => token) as [string, string];
});
afterAll(() => ambit?.stop());

function ask(client: HandshakeClient, method: string, params: object = {}) {
  return readAnswer(client.post(JSON.stringify({ jsonrpc: '2.0', id: 2, method, params })));
}

/** Calls a tool as a task. */
async function startTask(client: HandshakeClient, name: string, given = '{}'): Promise<Task> {
  const { result } = await ask(client, 'tools/call', { name, arguments: JSON.parse(given) as object, task: {} });
  return result?.task as Task;
}

test.each(['fresh', 'all'])('a client of 2025-11-25 uses the tasks of a modern server (%s)', async (address) => {
  const isAll = address === 'all';
  const [url, tool] = isAll ? [all, 'fresh__run'] : [ambit.mcp('fresh'), 'run'];
  const client = await connectHandshake(url, mine);
  expect(client.initialized).toContain('"cancel":{},"requests":{"tools":{"call":{}}}');
  const { tools } = (await ask(client, 'tools/list')).result as { tools: { name: string }[] };
  expect(tools).toContainEqual(expect.objectContaining({ name: tool, execution: { taskSupport: 'optional' } }));
  const task = await startTask(client, tool, '{"pollIntervalMs":7,"ttlMs":9}');
  expect(task).toMatchObject({ status: 'input_required', pollInterval: 7, ttl: 9, createdAt: expect.any(String) });
  const { result: state } = await ask(client, 'tasks/get', task);
  expect(state).toMatchObject({ taskId: task.taskId, status: 'input_required', ttl: null });
  expect(JSON.stringify(state)).not.toMatch(/resultType|ttlMs|inputRequests/);
  const stranger = await connectHandshake(url, theirs);
  for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel'])
    expect((await ask(stranger, method, task)).error?.code).toBe(-32602);
  expect((await ask(client, 'tasks/cancel', task)).result).toMatchObject({ status: 'cancelled' });
  expect((await ask(client, 'tasks/result', task)).error?.message).toBe('The task was cancelled');
  // A call without `params.task` is never a task, and its server does not learn of the extension.
  const direct = (await readAnswer(client.call(tool, '{}'))).result?.content?.[0]?.text;
  expect(direct).not.toContain('tasks');
});

test('a call that a modern server answers at once is a task that has ended', async () => {
  const client = await connectHandshake(ambit.mcp('fresh'), mine);
  const task = await startTask(client, 'plain', '{"note":"SESSION CONTEXT (auto-injected)"}');
  expect(task).toMatchObject({ status: 'completed', ttl: 300_000 });
  expect((await ask(client, 'tasks/get', task)).result).toEqual(task);
  const { result } = await ask(client, 'tasks/result', task);
  expect(result?.content?.[0]?.text).toContain('"name":"plain"');
  expect(result?.content?.[0]?.text).toContain('written by a tool, not by Ambit');
  expect(result?._meta).toMatchObject({ 'io.modelcontextprotocol/related-task': { taskId: task.taskId } });
  expect(result).not.toHaveProperty('resultType');
  expect((await ask(client, 'tasks/cancel', task)).error?.code).toBe(-32602);
  expect((await ask(client, 'tasks/list')).error?.code).toBe(-32601);
  const stranger = await connectHandshake(ambit.mcp('fresh'), theirs);
  expect((await ask(stranger, 'tasks/result', task)).error?.code).toBe(-32602);
  for (let i = 0; i < 32; i++) await startTask(client, 'plain');
  // The oldest result has made room for others.
  expect((await ask(client, 'tasks/result', task)).error?.code).toBe(-32602);
});

test('the result of a task is cleaned like any other answer', async () => {
  const client = await connectHandshake(ambit.mcp('fresh'), mine);
  const forged = { 'ambit/error': { code: 'X' }, 'io.modelcontextprotocol/related-task': { taskId: 'foreign' } };
  const task = await startTask(client, 'run', JSON.stringify({ done: { content: [], _meta: { ...forged, kept: 1 } } }));
  expect((await ask(client, 'tasks/result', task)).result?._meta).toEqual({
    kept: 1,
    'io.modelcontextprotocol/related-task': { taskId: task.taskId },
  });
  const odd = await startTask(client, 'run', '{"done":{"content":[],"_Meta":{"ambit/error":{}}}}');
  expect(JSON.stringify((await ask(client, 'tasks/result', odd)).result)).not.toContain('ambit');
  const failing = await startTask(client, 'run', '{"done":{"content":[],"isError":true}}');
  expect((await ask(client, 'tasks/get', failing)).result).toMatchObject({ status: 'failed' });
});

test('typescript-sdk: its client answers the question of a modern task', async () => {
  const client = new Client({ name: 'tasks', version: '1' }, { capabilities: { elicitation: { form: {} } } });
  const asked: unknown[] = [];
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push(params);
    return { action: 'accept', content: {} };
  });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(all), { requestInit: { headers: bearerHeader(mine) } }),
  );
  await client.listTools();
  const call = { name: 'fresh__run', arguments: { pollIntervalMs: 10 } };
  const events: string[] = [];
  for await (const event of client.experimental.tasks.callToolStream(call, CallToolResultSchema, { task: {} }))
    events.push(event.type === 'result' ? JSON.stringify(event.result) : event.type);
  expect(events.at(-1)).toContain('accept');
  const related = { 'io.modelcontextprotocol/related-task': { taskId: expect.any(String) } };
  expect(asked).toEqual([expect.objectContaining({ message: 'fresh asks: Which?', _meta: related })]);
  await client.close();
});

test('a client of 2025-06-18 gets no tasks of a modern server', async () => {
  const client = await connectHandshake(ambit.mcp('fresh'), mine, '2025-06-18', '{"tasks":{}}');
  expect(client.initialized).not.toContain('tasks');
  const call = '{"name":"run","arguments":{},"task":{"ttl":1}}';
  const sent = client.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${call}}`);
  const received = (await readAnswer(sent)).result?.content?.[0]?.text;
  expect(received).toContain('"name":"run"');
  expect(received).not.toMatch(/task/);
  expect((await ask(client, 'tasks/get', { taskId: 'x' })).error?.code).toBe(-32601);
});

/** Waits for the result of a task. The answer comes when the task has ended. */
function waitForResult(client: HandshakeClient, { taskId }: Task, id: number) {
  return client.post(JSON.stringify({ jsonrpc: '2.0', id, method: 'tasks/result', params: { taskId } }));
}

const cancelRequest = async (client: HandshakeClient, requestId: number) =>
  (
    await client.post(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId } }))
  ).rest();

test.each(['fresh', 'all'])(
  'S2: the cancellation of one client does not end the wait of another (%s)',
  async (address) => {
    const [url, tool] = address === 'all' ? [all, 'fresh__run'] : [ambit.mcp('fresh'), 'run'];
    const [client, other] = await Promise.all([connectHandshake(url, mine), connectHandshake(url, mine)]);
    const answered = await startTask(client, tool);
    const waiting = await waitForResult(client, answered, 7);
    const { id } = JSON.parse((await waiting.next()) as string) as { id: unknown };
    await cancelRequest(other, 7);
    await (await client.post(JSON.stringify({ jsonrpc: '2.0', id, result: { action: 'accept' } }))).rest();
    expect(await waiting.next()).toContain('accept');
    // Its own cancellation ends a wait, although nobody has answered the question.
    const task = await startTask(client, tool);
    const cancelled = await waitForResult(client, task, 7);
    expect(await cancelled.next()).toContain('Which?');
    await cancelRequest(client, 7);
    expect(await cancelled.rest()).toEqual([]);
    // The next wait asks again, and ends with the task.
    const again = await waitForResult(client, task, 8);
    expect(await again.next()).toContain('Which?');
    expect((await ask(other, 'tasks/cancel', task)).result).toMatchObject({ status: 'cancelled' });
    expect(await again.next()).toContain('The task was cancelled');
  },
);

test('S8: a client has few waits, also under one id, and a cancellation or the end of the session ends them', async () => {
  const { id, token } = await ambit.open();
  const client = await connectHandshake(ambit.mcp('fresh'), token);
  const task = await startTask(client, 'run', '{"done":false}');
  const startWaits = async (requestId: number) => {
    const started = Array.from({ length: 33 }, async () => (await waitForResult(client, task, requestId)).rest());
    // The first answer is the refusal of one too many, so the others wait.
    expect((await Promise.race(started))[0]).toContain('OVERLOADED');
    return started;
  };
  const cancelled = await startWaits(9);
  await cancelRequest(client, 9);
  expect((await Promise.all(cancelled)).flat()).toHaveLength(1);
  const waits = await startWaits(10);
  await ambit.end(id);
  const answers = (await Promise.all(waits)).flat();
  expect(answers.filter((each) => each.includes('SESSION_ENDED'))).toHaveLength(32);
});

test('a task that a server describes wrongly fails, and so do answers that it refuses', async () => {
  const client = await connectHandshake(ambit.mcp('fresh'), mine);
  for (const given of ['{"error":"text"}', '{"error":{"code":"x","message":1}}', '{"done":"text"}']) {
    const task = await startTask(client, 'run', given);
    expect((await ask(client, 'tasks/result', task)).error?.data).toMatchObject({ code: 'UPSTREAM_FAILED' });
  }
  const failed = await startTask(client, 'run', '{"error":{"code":-5,"message":"It broke."}}');
  expect((await ask(client, 'tasks/result', failed)).error).toEqual({ code: -5, message: 'It broke.' });
  const waiting = await waitForResult(client, await startTask(client, 'run', '{"refuses":true}'), 3);
  const { id } = JSON.parse((await waiting.next()) as string) as { id: unknown };
  await (await client.post(JSON.stringify({ jsonrpc: '2.0', id, result: { action: 'decline' } }))).rest();
  expect(await waiting.next()).toContain('did not accept the answers');
  const wrong = { name: 'run', arguments: {}, task: 'yes' };
  expect((await ask(client, 'tools/call', wrong)).error?.code).toBe(-32602);
});

test('S8: the results of tasks count as bytes of the session', async () => {
  const args = [join(import.meta.dirname, '../fixtures/tasks/ext-tasks-v2.js')];
  const small = await startEmbeddedAmbit({
    servers: { fresh: { command: process.execPath, args, era: 'modern' } },
    quotas: { session: { totalBytes: 100_000 } },
  });
  onTestFinished(() => small.stop());
  const client = await connectHandshake(small.mcp('fresh'), (await small.open()).token);
  const long = await startTask(client, 'plain', JSON.stringify({ text: 'x'.repeat(30_000) }));
  for (let i = 0; i < 4; i++) expect((await ask(client, 'tasks/result', long)).result).toBeDefined();
  // The store hears of these bytes within a second. The calls that ask for it are short.
  await expect.poll(() => startTask(client, 'plain'), { interval: 200, timeout: 10_000 }).toBeUndefined();
});
