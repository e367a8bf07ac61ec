import { describe, expect, test } from 'vitest';
import type { Message } from '../../../../src/protocol/message.ts';
import {
  type Binding,
  readProgressToken,
  stateBindings,
  taskBindings,
  toUpstreamNotification,
  toUpstreamRequest,
} from '../../../../src/upstreams/links/relay/towards-upstream.ts';
import { mine, otherServer, otherSession, read, relatedTask, request, seals } from './handles.ts';

function sent(message: Message, binding: Binding = mine): string {
  return toUpstreamRequest(message, [], 41, binding).bytes.toString();
}

function taskOf(binding: Binding): string {
  return JSON.stringify(seals.seal('task 1', taskBindings(binding)));
}

function stateFor(binding: Binding, method: string, name: string, life = 60_000): string {
  return JSON.stringify(seals.seal('{"step":2}', stateBindings(binding, method, name), Date.now() + life));
}

describe('ids and tokens', () => {
  test.each(['7', '"7"', '"\\u0061"', '-1', '9007199254740991', '""'])('%s becomes our own number', (id) => {
    const message = request('tools/call', `{"name":"echo","_meta":{"progressToken":${id},"x":1}}`, id);
    const outgoing = toUpstreamRequest(message, [], 41, mine);
    expect(outgoing.bytes.toString()).toBe(
      '{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"echo","_meta":{"progressToken":41,"x":1}}}',
    );
    expect(readProgressToken(message)).toBe(id);
    expect(outgoing.name).toBe('echo');
  });

  test('only the id of the message and the token of its _meta; whatever else has such a name stays', () => {
    const params =
      '{"name":"echo","arguments":{"id":"client-id","progressToken":5,"_meta":{"progressToken":5}},"id":9}';
    expect(sent(request('tools/call', params))).toBe(
      `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":${params}}`,
    );
  });
});

test.each([
  ['tools/call', '{"name":"echo","uri":"note://1"}', 'echo'],
  ['prompts/get', '{"name":"greet"}', 'greet'],
  ['resources/read', '{"uri":"note://1"}', 'note://1'],
  // A token for this name would be good for any address.
  ['resources/read', '{"name":"harmless","uri":"note://1"}', 'note://1'],
  ['resources/subscribe', '{"name":"harmless","uri":"note://1"}', 'note://1'],
  ['resources/read', '{"name":"harmless"}', ''],
  ['tools/list', '{}', ''],
])('%s of %s is about %j', (method, params, name) => {
  expect(toUpstreamRequest(request(method, params), [], 1, mine).name).toBe(name);
});

describe('requestState', () => {
  const retry = (state: string, name = 'echo', method = 'tools/call') =>
    request(method, `{"name":"${name}","requestState":${state},"inputResponses":{}}`);

  test('of this very request goes back as the upstream wrote it', () => {
    expect(sent(retry(stateFor(mine, 'tools/call', 'echo')))).toBe(
      '{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"echo","requestState":"{\\"step\\":2}","inputResponses":{}}}',
    );
  });

  test.each([
    ['another session', retry(stateFor(otherSession, 'tools/call', 'echo'))],
    ['another server', retry(stateFor(otherServer, 'tools/call', 'echo'))],
    ['another tool', retry(stateFor(mine, 'tools/call', 'delete'))],
    ['another method', retry(stateFor(mine, 'prompts/get', 'echo'))],
    ['long ago', retry(stateFor(mine, 'tools/call', 'echo', -60_000))],
    ['a task', retry(taskOf(mine))],
    ['nobody', retry('"{\\"step\\":2}"')],
    ['no string', retry('{"step":2}')],
    ['no string at all', retry('null')],
  ])('of %s is refused', (_name, message) => {
    expect(() => sent(message)).toThrow(expect.objectContaining({ name: 'ProtocolError', rpc: -32602, status: 200 }));
  });

  test('tells nothing about why it was refused', () => {
    const reasons = new Set<string>();
    for (const state of [stateFor(otherSession, 'tools/call', 'echo'), stateFor(mine, 'tools/call', 'x'), '"forged"']) {
      try {
        sent(retry(state));
      } catch (error) {
        reasons.add(String(error));
      }
    }
    expect([...reasons]).toHaveLength(1);
  });
});

describe('task ids', () => {
  const places: [string, (task: string) => Message][] = [
    ['tasks/get', (task) => request('tasks/get', `{"taskId":${task}}`)],
    ['tasks/update', (task) => request('tasks/update', `{"taskId":${task},"inputResponses":{}}`)],
    ['tasks/cancel', (task) => request('tasks/cancel', `{"taskId":${task}}`)],
    ['tasks/result', (task) => request('tasks/result', `{"taskId":${task}}`)],
    ['_meta of any request', (task) => request('acme/do', `{"_meta":{"${relatedTask}":{"taskId":${task}}}}`)],
  ];

  test.each(places)('of this session are opened in %s', (_name, message) => {
    expect(sent(message(taskOf(mine)))).toContain('"taskId":"task 1"');
  });

  const foreign = [taskOf(otherSession), taskOf(otherServer), '"task 1"', '""', '7', 'null', '{}'];

  // The server answers a random id as it answers any other unknown one. Its answer is used only if it is an error.
  test.each(places.slice(0, -1))('of others, or of nobody, become a random id in %s', (_name, message) => {
    for (const task of [...foreign, stateFor(mine, 'tools/call', 'echo')]) {
      const [one, two] = [1, 2].map(() => toUpstreamRequest(message(task), [], 1, mine));
      expect(one?.hasUnknownTask).toBe(true);
      expect(one?.taskId).toMatch(/^[0-9a-f-]{36}$/);
      expect(one?.bytes.toString()).toContain(`"taskId":"${one?.taskId}"`);
      expect(two?.taskId).not.toBe(one?.taskId);
    }
  });

  test.each(places.slice(-1))('of others, or of nobody, do not exist in %s', (_name, message) => {
    for (const task of [...foreign, stateFor(mine, 'tools/call', 'echo')]) {
      expect(() => sent(message(task))).toThrow(expect.objectContaining({ rpc: -32602, message: 'Task not found' }));
    }
  });

  test('in a listen request are opened, and those of others are left out', () => {
    const listen = (filter: string) => request('subscriptions/listen', `{"notifications":{${filter}}}`);
    const ids = [taskOf(mine), ...foreign].join(',');
    expect(sent(listen(`"x":1,"taskIds":[${ids}]`))).toContain('"notifications":{"x":1,"taskIds":["task 1"]}');
    expect(sent(listen('"taskIds":"task 1"'))).toContain('"taskIds":[]');
    // The server could read the second one.
    for (const twin of ['"taskIds":["task 1"]', '"TaskIds":["task 1"]'])
      expect(() => sent(listen(`"taskIds":[],${twin}`))).toThrow(expect.objectContaining({ rpc: -32602 }));
  });

  test('are handed to whoever writes the headers as the upstream knows them', () => {
    expect(toUpstreamRequest(request('tasks/get', `{"taskId":${taskOf(mine)}}`), [], 1, mine).taskId).toBe('task 1');
  });

  test('that a tool takes as an argument are its own affair', () => {
    const params = '{"name":"t","arguments":{"taskId":"task 1"},"taskId":"task 1"}';
    expect(sent(request('tools/call', params))).toContain(params);
  });
});

describe('notifications and answers', () => {
  test('keep every byte but the handles', () => {
    const message = read(
      `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{ "taskId":${taskOf(mine)},"x":1E5}}`,
    );
    expect(toUpstreamNotification(message, [], mine).toString()).toBe(
      '{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{ "taskId":"task 1","x":1E5}}',
    );
  });

  test('about a foreign task go nowhere', () => {
    const about = (task: string) => `{"_meta":{"${relatedTask}":{"taskId":${task}}}}`;
    const messages = [
      `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":${taskOf(otherSession)}}}`,
      `{"jsonrpc":"2.0","method":"notifications/x","params":${about(taskOf(otherSession))}}`,
      `{"jsonrpc":"2.0","id":1,"result":${about(taskOf(otherSession))}}`,
    ];
    for (const text of messages) expect(() => toUpstreamNotification(read(text), [], mine)).toThrow('Task not found');
  });
});
