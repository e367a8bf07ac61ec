import { describe, expect, test } from 'vitest';
import { insertMeta } from '../../../../src/protocol/insert-meta.ts';
import { applyEdits, type Edit } from '../../../../src/protocol/json/edit.ts';
import { readMessage } from '../../../../src/protocol/message.ts';
import {
  addEnvelope,
  describeTaskSupport,
  removeEnvelope,
  replaceId,
  toHandshakeAnswer,
  toModernAnswer,
} from '../../../../src/upstreams/links/bridge/era-translation.ts';

const read = (text: string) => readMessage(Buffer.from(text));
const result = (inner: string) => read(`{"jsonrpc":"2.0","id":1,"result":${inner}}`);
const resultOf = (bytes: Buffer) => (JSON.parse(bytes.toString()) as { result: unknown }).result;

describe('a handshake-era answer for a modern client', () => {
  test.each([
    ['tools/call', '{}', { resultType: 'complete' }],
    ['tools/call', '{"content":[]}', { resultType: 'complete', content: [] }],
    ['tools/list', '{}', { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }],
    ['tools/list', '{"tools":[]}', { resultType: 'complete', ttlMs: 0, cacheScope: 'private', tools: [] }],
    ['resources/read', '{"ttlMs":5,"cacheScope":"public"}', { resultType: 'complete', ttlMs: 5, cacheScope: 'public' }],
    ['tools/call', '{"resultType":"task"}', { resultType: 'task' }],
  ])('%s: %s is complete', (method, inner, expected) => {
    expect(resultOf(toModernAnswer(result(inner), method))).toEqual(expected);
  });

  test('a resource that is not found has the code of the new era, and other errors their own', () => {
    const error = (code: number) => read(`{"jsonrpc":"2.0","id":1,"error":{"code":${code},"message":"m"}}`);
    const codeOf = (bytes: Buffer) => (JSON.parse(bytes.toString()) as { error: { code: number } }).error.code;
    expect(codeOf(toModernAnswer(error(-32002), 'resources/read'))).toBe(-32602);
    expect(codeOf(toModernAnswer(error(-32603), 'resources/read'))).toBe(-32603);
  });
});

describe('a modern answer for a handshake-era client', () => {
  test('has nothing only the new era knows, and the rest byte for byte', () => {
    const answer = result('{"resultType":"complete","n":9007199254740993,"ttlMs":1,"cacheScope":"public"}');
    expect(toHandshakeAnswer(answer).toString()).toBe('{"jsonrpc":"2.0","id":1,"result":{"n":9007199254740993}}');
  });

  test('an error stays as it is', () => {
    const answer = read('{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}');
    expect(toHandshakeAnswer(answer)).toBe(answer.bytes);
  });
});

test('another id takes the place of the first', () => {
  expect(replaceId(result('{}'), '"seven"').toString()).toBe('{"jsonrpc":"2.0","id":"seven","result":{}}');
});

const envelope = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': { roots: {} },
  'io.modelcontextprotocol/clientInfo': { name: 'someone', version: '1' },
  'io.modelcontextprotocol/logLevel': 'info',
};

function edited(text: string, edit: (message: ReturnType<typeof readMessage>) => Edit[]) {
  const message = readMessage(Buffer.from(text));
  return JSON.parse(applyEdits(message.bytes, edit(message)).toString()) as { params?: { _meta?: object } };
}

const request = (params?: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/list"${params === undefined ? '' : `,"params":${params}`}}`;

describe.each([
  ['no params', undefined, {}],
  ['empty params', '{}', {}],
  ['params without _meta', '{"cursor":"c"}', { cursor: 'c' }],
  ['an empty _meta', '{"_meta":{}}', {}],
  ['an empty _meta with room in it', '{ "_meta" : { } , "cursor":"c"}', { cursor: 'c' }],
  ['a _meta with members', '{"_meta":{"progressToken":9007199254740993},"cursor":"c"}', { cursor: 'c' }],
])('a request with %s', (_name, params, rest) => {
  test('gets the envelope and keeps what it had', () => {
    const described = edited(request(params), (message) =>
      addEnvelope(message, {
        capabilities: '{"roots":{}}',
        clientInfo: '{"name":"someone","version":"1"}',
        logLevel: 'info',
      }),
    );
    expect(described.params).toMatchObject({ ...rest, _meta: envelope });
    expect(described.params?._meta).toEqual(
      params?.includes('progressToken') ? { ...envelope, progressToken: 9007199254740992 } : envelope,
    );
  });

  test('loses the envelope again, and only that', () => {
    const with_ = edited(request(params), (message) => [insertMeta(message, JSON.stringify(envelope).slice(1, -1))]);
    const without = edited(JSON.stringify(with_), removeEnvelope);
    const meta = params?.includes('progressToken') ? { progressToken: 9007199254740992 } : {};
    expect(without.params).toEqual({ ...rest, _meta: meta });
  });
});

test('an envelope without a name or a level has none', () => {
  const described = edited(request(), (message) =>
    addEnvelope(message, { capabilities: '{}', clientInfo: undefined, logLevel: undefined }),
  );
  expect(Object.keys(described.params?._meta ?? {})).toEqual([
    'io.modelcontextprotocol/protocolVersion',
    'io.modelcontextprotocol/clientCapabilities',
  ]);
});

test.each(['"text"', '7', '[]', 'null'])(
  'a _meta that is %s has no room for what must be told, and is refused',
  (meta) => {
    const text = request(`{"_meta":${meta}}`);
    const message = readMessage(Buffer.from(text));
    expect(() => insertMeta(message, '"a":1')).toThrow('params._meta must be an object');
    expect(removeEnvelope(message)).toEqual([]);
  },
);

test('a long integer in _meta survives to the last digit', () => {
  const message = readMessage(Buffer.from(request('{"_meta":{"progressToken":9007199254740993}}')));
  expect(applyEdits(message.bytes, [insertMeta(message, '"a":1')]).toString()).toContain(
    '{"a":1,"progressToken":9007199254740993}',
  );
});

test('what a modern server itself says about the tasks of a tool is kept, since the tool may be pinned with it', () => {
  const tools = '[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b"},{},"text"]';
  const answer = readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{"tools":${tools}}}`));
  const listed = (hasTasks: boolean) =>
    (JSON.parse(describeTaskSupport(answer, hasTasks).toString()) as { result: { tools: unknown } }).result.tools;
  const optional = { taskSupport: 'optional' };
  expect(listed(true)).toEqual([
    { name: 'a', execution: { taskSupport: 'required' } },
    { name: 'b', execution: optional },
    { execution: optional },
    'text',
  ]);
  expect(listed(false)).toEqual([{ name: 'a' }, { name: 'b' }, {}, 'text']);
});
