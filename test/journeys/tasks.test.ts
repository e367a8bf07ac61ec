import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type EchoingUpstream, startEchoUpstream } from '../gateway/echoing-upstream.ts';
import { proof } from '../proof.ts';
import {
  bearerHeader,
  callModern,
  connectHandshake,
  type HandshakeClient,
  readAnswer,
  sendModern,
} from './raw-mcp-client.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from './start-embedded-ambit.ts';

const fixture = (name: string, ...args: string[]) => ({
  command: process.execPath,
  args: [join(import.meta.dirname, '../fixtures/tasks', name), ...args],
  push: { elicitation: true },
});
const everything = join(
  import.meta.dirname,
  '../../node_modules/@modelcontextprotocol/server-everything/dist/index.js',
);
const sdk1 = 'typescript-sdk-v1-tasks.js';
const ext2 = 'ext-tasks-v2.js';

let ambit: EmbeddedAmbit;
let all: string;
let mine: string;
let theirs: string;
let web: EchoingUpstream;
let bare: EchoingUpstream;
/** Called when the server "web" gets a call, which it never answers. */
let reachedWeb = () => {};

beforeAll(async () => {
  web = await startEchoUpstream((method) => {
    if (method === 'initialize')
      return { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 's', version: '1' } };
    if (method === 'tools/call') reachedWeb();
    return method === 'tools/call' ? new Promise(() => {}) : { tools: [] };
  });
  bare = await startEchoUpstream();
  ambit = await startEmbeddedAmbit({
    servers: {
      old: { ...fixture(sdk1, '{"experimental":{"acme":{}},"shared":{}}'), era: 'handshake' },
      older: { ...fixture(sdk1, '{"shared":{}}'), era: 'handshake' },
      fresh: { ...fixture(ext2, '{"io.modelcontextprotocol/skills":{"directoryRead":true}}'), era: 'modern' },
      newer: { ...fixture(ext2), era: 'modern' },
      everything: { command: process.execPath, args: [everything], push: { elicitation: true } },
      once: { ...fixture(sdk1), era: 'handshake', scope: 'call' },
      web: { url: web.url, era: 'handshake' },
      bare: { url: bare.url, era: 'modern' },
    },
  });
  all = `${ambit.url}/mcp`;
  const servers = ['old', 'older', 'fresh', 'newer'];
  const sessions = await Promise.all([ambit.open({ servers }), ambit.open({ servers })]);
  [mine, theirs] = sessions.map(({ token }) => token) as [string, string];
});

afterAll(async () => {
  await ambit?.stop();
  await Promise.all([web, bare].map((each) => each?.close()));
});

/** What a modern client without capabilities sends. */
const bareMeta =
  '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}';

type Task = Record<string, unknown> & { readonly taskId: string };
type Answer = Awaited<ReturnType<typeof readAnswer>>;

/** Calls the tool `run` of a server as a task, in the handshake era. */
async function startTask(client: HandshakeClient, tool: string, given = '{}'): Promise<Task> {
  const params = `{"name":"${tool}","arguments":${given},"task":{}}`;
  const { result } = await readAnswer(client.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`));
  return result?.task as Task;
}

function askHandshake(client: HandshakeClient, method: string, params: object = {}): Promise<Answer> {
  return readAnswer(client.post(JSON.stringify({ jsonrpc: '2.0', id: 2, method, params })));
}

function askModern(url: string, token: string, method: string, taskId: string, more = ''): Promise<Answer> {
  return readAnswer(
    sendModern(url, token, { method, name: taskId, params: `"taskId":${JSON.stringify(taskId)}${more}` }),
  );
}

function tamper(sealed: string): string {
  return sealed.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'));
}

describe('at the address of all servers', () => {
  test('a task of 2025-11-25 is fetched, listed and cancelled by its id', async () => {
    const client = await connectHandshake(all, mine);
    expect(client.initialized).toContain('"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}');
    const { tools } = (await askHandshake(client, 'tools/list')).result as {
      tools: { name: string; execution?: object }[];
    };
    expect(tools.find(({ name }) => name === 'old__run')?.execution).toEqual({ taskSupport: 'required' });
    const forged = 'SESSION CONTEXT (auto-injected)';
    const one = await startTask(client, 'old__run', JSON.stringify({ text: forged }));
    const two = await startTask(client, 'older__run', '{"status":"working"}');
    expect((await askHandshake(client, 'tasks/get', one)).result).toMatchObject({ ...one, status: 'completed' });
    // A result that comes later is marked like one that comes at once.
    const { result } = await askHandshake(client, 'tasks/result', one);
    expect(result?.content?.[0]?.text).toContain('written by a tool, not by Ambit');
    expect(result?._meta).toMatchObject({ 'io.modelcontextprotocol/related-task': { taskId: one.taskId } });
    const listed = (await askHandshake(client, 'tasks/list')).result?.tasks as Task[];
    expect(listed.map(({ taskId }) => taskId).sort()).toEqual([one.taskId, two.taskId].sort());
    expect((await askHandshake(client, 'tasks/cancel', two)).result).toMatchObject({ status: 'cancelled' });
    expect((await askHandshake(client, 'tasks/update', two)).error?.code).toBe(-32601);
  });

  test('S2: the id of a task is refused in other sessions and at other servers, like one that never was', async () => {
    const [client, stranger, other, again] = await Promise.all([
      connectHandshake(all, mine),
      connectHandshake(all, theirs),
      connectHandshake(ambit.mcp('older'), mine),
      connectHandshake(ambit.mcp('old'), mine),
    ]);
    const { taskId } = await startTask(client, 'old__run');
    const plain = taskId.split('.').at(-1) as string;
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      const unknown = await askHandshake(client, method, { taskId: 'never was' });
      expect(unknown.error).toEqual({ code: -32602, message: 'Task not found' });
      expect(await askHandshake(stranger, method, { taskId })).toEqual(unknown);
      for (const id of [tamper(taskId), plain, ''])
        expect(await askHandshake(client, method, { taskId: id })).toEqual(unknown);
      // The other server says it in its own words.
      const there = await askHandshake(other, method, { taskId });
      expect(there).toEqual(await askHandshake(other, method, { taskId: plain }));
      expect(there.error?.code).toBe(-32602);
    }
    expect((await askHandshake(stranger, 'tasks/list')).result?.tasks).toEqual([]);
    expect((await askHandshake(again, 'tasks/get', { taskId })).result).toMatchObject({ taskId });
  });

  test('a task of the extension is fetched, updated, cancelled and reported by its id', async () => {
    const create = async (token = mine) =>
      (await readAnswer(callModern(all, token, 'fresh__run', '{}'))).result as Task;
    const [task, foreign] = await Promise.all([create(), create(theirs)]);
    const taskIds = JSON.stringify([task.taskId, foreign.taskId, 'never was']);
    const params = `"notifications":{"taskIds":${taskIds}}`;
    const listener = await sendModern(all, mine, { method: 'subscriptions/listen', id: '"ear"', params });
    expect(JSON.parse((await listener.next())!)).toMatchObject({
      params: { notifications: { taskIds: [task.taskId] } },
    });
    const { result } = await askModern(all, mine, 'tasks/get', task.taskId);
    expect(result).toMatchObject({
      taskId: task.taskId,
      inputRequests: { sure: { params: { message: 'fresh asks: Which?' } } },
    });
    const given = ',"inputResponses":{"sure":{"action":"accept"}}';
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const unknown = await askModern(all, theirs, method, 'never was', given);
      expect(unknown.error).toEqual({ code: -32602, message: 'Task not found' });
      expect(await askModern(all, theirs, method, task.taskId, given)).toEqual(unknown);
      expect(await askModern(all, mine, method, tamper(task.taskId), given)).toEqual(unknown);
      // The other server says it in its own words.
      expect((await askModern(ambit.mcp('newer'), mine, method, task.taskId, given)).error?.message).toBe(
        'Unknown task',
      );
    }
    expect((await askModern(all, mine, 'tasks/update', task.taskId, given)).result).toEqual({ resultType: 'complete' });
    expect(JSON.parse((await listener.next())!)).toMatchObject({
      method: 'notifications/tasks',
      params: {
        taskId: task.taskId,
        status: 'completed',
        _meta: { 'io.modelcontextprotocol/subscriptionId': 'ear' },
      },
    });
    listener.close();
    for (const method of ['tasks/list', 'tasks/result'])
      expect((await askModern(all, mine, method, task.taskId)).error?.code).toBe(-32601);
    const body = `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x","_meta":{${bareMeta}}}}`;
    const undeclared = await readAnswer(sendModern(all, mine, { method: 'tasks/get', name: 'x' }, body));
    expect(undeclared.error).toMatchObject({ code: -32021 });
  });

  test('a method that Ambit does not know goes to the only server that declares it', async () => {
    const client = await connectHandshake(all, mine);
    expect((await askHandshake(client, 'acme/do')).result).toEqual({ method: 'acme/do' });
    const shared = await askHandshake(client, 'shared/do');
    expect(shared.error).toMatchObject({ code: -32601, message: expect.stringContaining('"old", "older"') });
    expect((await askHandshake(client, 'nobody/do')).error).toMatchObject({ code: -32601 });
    for (const method of ['notifications/acme/hint', 'notifications/shared/hint', 'notifications/nobody/hint'])
      await (await client.post(`{"jsonrpc":"2.0","method":"${method}"}`)).rest();
    const heardBy = async (server: string) =>
      (await readAnswer(client.call(`${server}__heard`, '{}'))).result?.content?.[0]?.text;
    expect(await heardBy('old')).toContain('["notifications/initialized","notifications/acme/hint"]');
    expect(await heardBy('older')).not.toContain('hint');
    for (const method of ['skills/list', 'resources/directory/read'])
      expect((await readAnswer(sendModern(all, mine, { method }))).result).toMatchObject({ method });
    expect((await sendModern(all, mine, { method: 'nobody/do' })).status).toBe(404);
  });
});

describe('at the address of all servers, tasks are declared only if a server has them', () => {
  const open = async (...servers: string[]) => (await ambit.open({ servers })).token;
  const discover = async (token: string) => {
    const { result } = await readAnswer(sendModern(all, token, { method: 'server/discover' }));
    return (result?.capabilities as { readonly extensions?: object } | undefined)?.extensions ?? {};
  };

  test.each([
    ['a modern server', 'newer', true],
    ['a translated server', 'older', true],
    ['a server of each era without tasks', 'web bare', false],
    ['a server whose process ends with the call', 'once', false],
  ])('to a modern client: %s', async (_, names, isDeclared) => {
    const token = await open(...names.split(' '));
    expect('io.modelcontextprotocol/tasks' in (await discover(token))).toBe(isDeclared);
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel']) {
      const { error } = await askModern(all, token, method, 'never was');
      expect(error?.code).toBe(isDeclared ? -32602 : -32601);
    }
    // A client without the extension learns that it needs it only if there are tasks.
    const body = `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x","_meta":{${bareMeta}}}}`;
    const undeclared = await sendModern(all, token, { method: 'tasks/get', name: 'x' }, body);
    expect(undeclared.status).toBe(isDeclared ? 400 : 404);
    expect((await readAnswer(undeclared)).error?.code).toBe(isDeclared ? -32021 : -32601);
  });

  test.each([
    ['a server with tasks', 'older bare', true],
    ['a server of each era without tasks', 'web bare', false],
    ['a modern server, whose tasks are translated', 'newer', true],
    ['a server whose process ends with the call', 'once', false],
  ])('to a client of 2025-11-25: %s', async (_, names, isDeclared) => {
    const token = await open(...names.split(' '));
    const declared = '"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}';
    // Nobody knows yet. A client that is not told of tasks would not use them as long as it is connected.
    const capabilities = `{"experimental":{"${names}":{}}}`;
    const first = await connectHandshake(all, token, '2025-11-25', capabilities);
    expect(first.initialized).toContain(declared);
    for (const method of ['tasks/get', 'tasks/result', 'tasks/cancel']) {
      const { error } = await askHandshake(first, method, { taskId: 'never was' });
      expect(error?.code).toBe(isDeclared ? -32602 : -32601);
    }
    const { result, error } = await askHandshake(first, 'tasks/list');
    expect(isDeclared ? result?.tasks : error?.code).toEqual(isDeclared ? [] : -32601);
    await askHandshake(first, 'tools/list');
    const next = await connectHandshake(all, token, '2025-11-25', capabilities);
    expect(next.initialized.includes(declared)).toBe(isDeclared);
    expect(next.initialized.includes('tasks')).toBe(isDeclared);
  });

  test('clients of both eras with the same capabilities get what is true in their era', async () => {
    const token = await open('older', 'newer');
    const ask = async (method: string) => {
      const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{"_meta":{${bareMeta}}}}`;
      return JSON.stringify((await readAnswer(sendModern(all, token, { method }, body))).result);
    };
    const client = await connectHandshake(all, token, '2025-11-25', '{}');
    const listed = (await askHandshake(client, 'tools/list')).result?.tools as object[];
    const run = { name: 'older__run', execution: { taskSupport: 'required' } };
    expect(listed).toContainEqual(expect.objectContaining(run));
    expect((await ask('tools/list')).includes('taskSupport')).toBe(false);
    expect(await ask('server/discover')).toContain('"io.modelcontextprotocol/tasks":{}');
  });
});

describe('between the eras', () => {
  test.each(['old', 'all'])('a modern client uses the tasks of a server of 2025-11-25 (%s)', async (address) => {
    const isAll = address === 'all';
    const [url, tool] = isAll ? [all, 'old__run'] : [ambit.mcp('old'), 'run'];
    const start = async (given: string) => (await readAnswer(callModern(url, mine, tool, given))).result as Task;
    const failed = await start('{"isError":true,"text":"no","status":"failed"}');
    expect(failed).toMatchObject({ resultType: 'task', ttlMs: 60_000, pollIntervalMs: 10 });
    // A result with `isError` is no failure of the task in the extension.
    const { result } = await askModern(url, mine, 'tasks/get', failed.taskId);
    expect(result).toMatchObject({ status: 'completed', result: { isError: true, content: [{ text: 'no' }] } });
    expect(JSON.stringify(result)).not.toContain('related-task');
    const odd = await start('{"text":"null"}');
    expect((await askModern(url, mine, 'tasks/get', odd.taskId)).error?.data).toMatchObject({
      code: 'UPSTREAM_FAILED',
    });

    const task = await start('{"ask":true}');
    const listener = await sendModern(url, mine, {
      method: 'subscriptions/listen',
      params: `"notifications":{"taskIds":[${JSON.stringify(task.taskId)}]}`,
    });
    expect(await listener.next()).toContain(task.taskId);
    const asking = (await askModern(url, mine, 'tasks/get', task.taskId)).result;
    const [[key, question]] = Object.entries(asking?.inputRequests as object) as [[string, object]];
    expect(question).toMatchObject({ params: { message: isAll ? 'old asks: Which?' : 'Which?' } });
    const given = `,"inputResponses":{${JSON.stringify(key)}:{"action":"accept"}}`;
    expect((await askModern(url, theirs, 'tasks/update', task.taskId, given)).error?.code).toBe(-32602);
    expect((await askModern(url, mine, 'tasks/update', task.taskId, given)).result).toEqual({ resultType: 'complete' });
    const notice = JSON.parse((await listener.next())!) as { params: object };
    expect(notice.params).toMatchObject({ taskId: task.taskId, status: 'completed' });
    expect(JSON.stringify(notice)).toContain('accept');
    listener.close();
    expect((await askModern(url, mine, 'tasks/cancel', task.taskId)).result).toEqual({ resultType: 'complete' });
  });

  test('S8: tasks that have got their answers make room for others', async () => {
    const runTask = async () => {
      const { taskId } = (await readAnswer(callModern(ambit.mcp('old'), mine, 'run', '{"ask":true}'))).result as Task;
      const get = () => askModern(ambit.mcp('old'), mine, 'tasks/get', taskId);
      const { result, error } = await get();
      if (error !== undefined) return error;
      const [key] = Object.keys(result?.inputRequests as object);
      const given = `,"inputResponses":{"${key}":{"action":"accept"}}`;
      await askModern(ambit.mcp('old'), mine, 'tasks/update', taskId, given);
      return (await get()).result?.status;
    };
    for (const _ of [1, 2]) {
      const states = await Promise.all(Array.from({ length: 20 }, runTask));
      expect(states).toEqual(Array(20).fill('completed'));
    }
  });

  test('a tool that runs only as a task is refused to a modern client without the extension', async () => {
    const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{},"_meta":{${bareMeta}}}}`;
    const { error } = await readAnswer(sendModern(ambit.mcp('old'), mine, { name: 'run' }, body));
    expect(error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } },
    });
  });
});

test.each(['all', 'web'])('S8: a cancellation that names a foreign task still ends its call (%s)', async (address) => {
  const isAll = address === 'all';
  const { token } = await ambit.open({ servers: ['web'] });
  const client = await connectHandshake(isAll ? all : ambit.mcp('web'), token);
  const arrived = new Promise<void>((resolve) => {
    reachedWeb = resolve;
  });
  const call = `{"name":"${isAll ? 'web__hang' : 'hang'}","arguments":{}}`;
  const calling = client.post(`{"jsonrpc":"2.0","id":77,"method":"tools/call","params":${call}}`);
  await arrived;
  const meta = '{"io.modelcontextprotocol/related-task":{"taskId":"foreign"}}';
  const params = `{"requestId":77,"_meta":${meta}}`;
  const sent = await client.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
  expect([sent.status, await sent.rest()]).toEqual([202, []]);
  // Nothing comes, and the call is over.
  expect(await (await calling).rest()).toEqual([]);
});

test('a server whose process ends with the call has no tasks in either era', async () => {
  const { token } = await ambit.open();
  const url = ambit.mcp('once');
  const client = await connectHandshake(url, token);
  expect(client.initialized).toContain('"capabilities":{"tools":{}}');
  const names = (answer: Answer) => ((answer.result?.tools ?? []) as { name: string }[]).map(({ name }) => name);
  expect(names(await askHandshake(client, 'tools/list'))).toEqual(['plain', 'heard']);
  expect(names(await readAnswer(sendModern(url, token, { method: 'tools/list' })))).toEqual(['plain', 'heard']);
  const params = { name: 'run', arguments: {}, task: {} };
  expect((await askHandshake(client, 'tools/call', params)).result).toMatchObject({ isError: true });
  expect((await readAnswer(callModern(url, token, 'run', '{}'))).error?.code).toBe(-32021);
  expect((await askHandshake(client, 'tasks/get', { taskId: 'x' })).error?.code).toBe(-32601);
});

// The tool waits four seconds.
test.runIf(proof)('the tasks of server-everything work with the SDK client at the address of all servers', async () => {
  const { token } = await ambit.open({ servers: ['everything', 'old'] });
  const client = new Client({ name: 'tasks', version: '1' }, { capabilities: { elicitation: { form: {} } } });
  const asked: string[] = [];
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    asked.push(params.message);
    return { action: 'accept', content: { interpretation: 'technical' } };
  });
  await client.connect(
    new StreamableHTTPClientTransport(new URL(all), { requestInit: { headers: bearerHeader(token) } }),
  );
  await client.listTools();
  const call = { name: 'everything__simulate-research-query', arguments: { topic: 'x', ambiguous: true } };
  const seen = new Set<string>();
  for await (const event of client.experimental.tasks.callToolStream(call, CallToolResultSchema, { task: {} })) {
    seen.add('task' in event ? `${event.type} ${event.task.status}` : event.type);
  }
  expect([...seen]).toEqual(['taskCreated working', 'taskStatus working', 'taskStatus input_required', 'result']);
  expect(asked).toEqual([expect.stringMatching(/^everything asks: /)]);
  await client.close();
});
