import { describe, expect, test } from 'vitest';
import { insertMeta } from '../../../../src/protocol/insert-meta.ts';
import { applyEdits, type Edit } from '../../../../src/protocol/json/edit.ts';
import { readMessage } from '../../../../src/protocol/message.ts';
import { withEnvelope, withoutEnvelope } from '../../../../src/upstreams/links/bridge/result-edits.ts';

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
      withEnvelope(message, {
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
    const without = edited(JSON.stringify(with_), withoutEnvelope);
    const meta = params?.includes('progressToken') ? { progressToken: 9007199254740992 } : {};
    expect(without.params).toEqual({ ...rest, _meta: meta });
  });
});

test('an envelope without a name or a level has none', () => {
  const described = edited(request(), (message) =>
    withEnvelope(message, { capabilities: '{}', clientInfo: undefined, logLevel: undefined }),
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
    expect(withoutEnvelope(message)).toEqual([]);
  },
);

test('a long integer in _meta survives to the last digit', () => {
  const message = readMessage(Buffer.from(request('{"_meta":{"progressToken":9007199254740993}}')));
  expect(applyEdits(message.bytes, [insertMeta(message, '"a":1')]).toString()).toContain(
    '{"a":1,"progressToken":9007199254740993}',
  );
});
