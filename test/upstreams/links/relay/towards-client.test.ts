import { describe, expect, test } from 'vitest';
import {
  isAboutForeignTask,
  toClientPush,
  toClientResponse,
} from '../../../../src/upstreams/links/relay/towards-client.ts';
import {
  stateBindings,
  taskBindings,
  toUpstreamRequest,
} from '../../../../src/upstreams/links/relay/towards-upstream.ts';
import { mine, otherSession, parsed, read, relatedTask, request, response, seals } from './handles.ts';

const call = { clientId: '"client"', method: 'tools/call', name: 'echo' };

function received(result: string, origin = call): string {
  return toClientResponse(response(result), origin, mine).toString();
}

function receivedResult<Result>(result: string, origin = call): Result {
  return parsed<{ result: Result }>(Buffer.from(received(result, origin))).result;
}

function openedTask(sealed: unknown): string | undefined {
  return seals.open(sealed as string, taskBindings(mine), Date.now());
}

describe('a response', () => {
  test.each(['7', '"7"', '"\\u0061"', '-1', '9007199254740991'])(
    'gets the id %s back as it was written',
    (clientId) => {
      const result = '{ "id":41, "content":[], "x":9007199254740993, "y":-0 }';
      expect(received(result, { ...call, clientId })).toBe(`{"jsonrpc":"2.0","id":${clientId},"result":${result}}`);
    },
  );

  test.each(['null', '[]', '"text"', '17', '{}', '{"resultType":"from the future","task":"none","requestState":7}'])(
    'whose result is %s keeps it',
    (result) => {
      expect(received(result)).toBe(`{"jsonrpc":"2.0","id":"client","result":${result}}`);
    },
  );

  test('that is an error keeps its code and data, whatever they are', () => {
    const error = '{"code":-40404,"message":"no","data":{"requestState":"s","taskId":"t","n":1E400},"more":1}';
    const bytes = toClientResponse(read(`{"jsonrpc":"2.0","id":41,"error":${error}}`), call, mine);
    expect(bytes.toString()).toBe(`{"jsonrpc":"2.0","id":"client","error":${error}}`);
  });

  test('has its requestState sealed for this session, method and tool, and back again', () => {
    const result = receivedResult<{ requestState: string }>(
      '{"resultType":"input_required","requestState":"s\\ud800"}',
    );
    const retry = request('tools/call', `{"name":"echo","requestState":${JSON.stringify(result.requestState)}}`);
    expect(toUpstreamRequest(retry, [], 1, mine).bytes.toString()).toContain('"requestState":"s\\ud800"');
    expect(() => toUpstreamRequest(retry, [], 1, otherSession)).toThrow(/requestState/);
    const never = Date.now() + 61 * 60 * 1000;
    expect(seals.open(result.requestState, stateBindings(mine, 'tools/call', 'echo'), never)).toBeUndefined();
  });

  test('has the subscription id of a listen request replaced, and no other', () => {
    const key = '"io.modelcontextprotocol/subscriptionId"';
    const result = (id: string) => `{"_meta":{${key}:${id},"x":1},"data":{${key}:41}}`;
    expect(received(result('41'))).toContain(result('"client"'));
  });
});

describe('task ids in a response', () => {
  test('of resultType "task"', () => {
    const result = receivedResult<{ taskId: string }>('{"resultType":"task","taskId":"t 1","status":"working"}');
    expect(openedTask(result.taskId)).toBe('t 1');
  });

  test('of a task made by the handshake era', () => {
    const { task } = receivedResult<{ task: { taskId: string } }>('{"task":{"taskId":"t 2","ttl":1}}');
    expect(openedTask(task.taskId)).toBe('t 2');
  });

  test('S2: of tasks/get, and of each in tasks/list that this session has made', () => {
    const get = { ...call, method: 'tasks/get' };
    const one = receivedResult<{ taskId: string }>('{"taskId":"t 3","status":"working"}', get);
    expect(openedTask(one.taskId)).toBe('t 3');
    for (const taskId of ['a', 'b']) received(`{"task":{"taskId":"${taskId}"}}`);
    const list = { ...call, method: 'tasks/list' };
    const { tasks } = receivedResult<{ tasks: { taskId: string }[] }>(
      '{"tasks":[ {"taskId":"foreign"}, {"taskId":"a"},{"x":1}, 7, {"taskId":"b","taskIds":["c"]} , {"taskId":3}],"nextCursor":"n"}',
      list,
    );
    expect(tasks.map((task) => openedTask(task.taskId))).toEqual(['a', 'b']);
    expect(tasks[1]).toMatchObject({ taskIds: ['c'] });
    const strangers = toClientResponse(response('{"tasks":[{"taskId":"a"} , {"taskId":"b"}]}'), list, otherSession);
    expect(strangers.toString()).toContain('"result":{"tasks":[]}');
  });

  test('that _meta says it is related to', () => {
    const result = receivedResult<{ _meta: Record<string, { taskId: string }> }>(
      `{"_meta":{"${relatedTask}":{"taskId":"t 4"}}}`,
    );
    expect(openedTask(result._meta[relatedTask]?.taskId)).toBe('t 4');
  });

  test('that a tool speaks of in its own words stay', () => {
    const result = '{"taskId":"t","structuredContent":{"taskId":"t","task":{"taskId":"t"}},"tasks":[{"taskId":"t"}]}';
    expect(received(result)).toContain(result);
  });

  test('sealed for one session do not open for another', () => {
    const result = receivedResult<{ taskId: string }>('{"resultType":"task","taskId":"t"}');
    const get = request('tasks/get', `{"taskId":${JSON.stringify(result.taskId)}}`);
    expect(toUpstreamRequest(get, [], 1, mine).taskId).toBe('t');
    expect(toUpstreamRequest(get, [], 1, otherSession)).toMatchObject({ hasUnknownTask: true });
  });

  test('of a task that the session does not have are never shown, whatever the server answers', () => {
    const asked = { ...call, method: 'tasks/get', hasUnknownTask: true };
    const answer = toClientResponse(response('{"taskId":"t","result":{"content":[]}}'), asked, mine).toString();
    expect(JSON.parse(answer)).toMatchObject({ error: { code: -32602, message: 'Task not found' } });
    expect(answer).not.toContain('content');
  });
});

describe('what an upstream says by itself', () => {
  const pushed = (text: string, names: Parameters<typeof toClientPush>[2]) =>
    toClientPush(read(text), mine, names).toString();

  test('progress carries the token the caller gave', () => {
    const progress = (token: string) =>
      `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":0.50,"x":41}}`;
    expect(pushed(progress('41'), { progressToken: '"mine"' })).toBe(progress('"mine"'));
  });

  test('a subscription carries the id of the listen request', () => {
    const update = (id: string) =>
      `{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${id}}}}`;
    expect(pushed(update('41'), { subscriptionId: '"mine"' })).toBe(update('"mine"'));
  });

  test('a request carries our id, also as its progress token', () => {
    const ask = (id: string, token: string) =>
      `{"jsonrpc":"2.0","id":${id},"method":"elicitation/create","params":{"_meta":{"progressToken":${token}},"id":"up"}}`;
    expect(pushed(ask('"up"', '"up"'), { id: '3' })).toBe(ask('3', '3'));
  });

  test('a cancellation names the request as the caller knows it', () => {
    const cancel = (id: string) =>
      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},"reason":"41"}}`;
    expect(pushed(cancel('"up"'), { requestId: '3' })).toBe(cancel('3'));
  });

  test.each(['notifications/tasks', 'notifications/tasks/status'])('task ids in %s are sealed', (method) => {
    const text = pushed(`{"jsonrpc":"2.0","method":"${method}","params":{"taskId":"t"}}`, {});
    expect(openedTask(parsed<{ params: { taskId: string } }>(Buffer.from(text)).params.taskId)).toBe('t');
  });

  test('S2: a notification about a task of another session is not for this one, and names none that opens', () => {
    received('{"task":{"taskId":"made here"}}');
    const status = (taskId: string) =>
      read(`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"${taskId}"}}`);
    expect(isAboutForeignTask(status('made here'), mine)).toBe(false);
    expect(isAboutForeignTask(status('made here'), otherSession)).toBe(true);
    expect(isAboutForeignTask(status('elsewhere'), mine)).toBe(true);
    const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"_meta":{"${relatedTask}":{"taskId":"elsewhere"}}}}`;
    expect(pushed(log, {})).toContain('{"taskId":"unknown"}');
  });

  test('our own keys never come from an upstream', () => {
    const text = pushed(
      '{"jsonrpc":"2.0","method":"x","params":{"_meta":{"Ambit/error":1,"y":2},"_meta":{"ambit/z":1}}}',
      {},
    );
    expect(text).toBe('{"jsonrpc":"2.0","method":"x","params":{"_meta":{"y":2},"_meta":{}}}');
    expect(received('{"_meta":{"\\u0061mbit/error":{"code":"X"}},"content":[]}')).toBe(
      '{"jsonrpc":"2.0","id":"client","result":{"_meta":{},"content":[]}}',
    );
  });
});
