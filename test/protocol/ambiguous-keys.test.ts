import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readServerMessage, refuseAmbiguousKeys } from '../../src/protocol/ambiguous-keys.ts';
import { findMember, readStringValue } from '../../src/protocol/json/scan.ts';
import { type Message, MessageError, readMessage } from '../../src/protocol/message.ts';
import { readLikeC } from '../fixtures/hostile/read-like-c.js';
import { counts } from '../proof.ts';
import { valueText } from './json/json-texts.ts';

function checkMessage(text: string): void {
  refuseAmbiguousKeys(readMessage(Buffer.from(text)));
}

function composeCall(params: string, method = 'tools/call'): string {
  return `{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${params}}}`;
}

const relatedTask = '"io.modelcontextprotocol/related-task"';

/** The parts of a message that Ambit checks. */
function describeMessage({ bytes, id, method, params, meta }: Message) {
  const inside = { name: params?.shape, uri: params?.shape, progressToken: meta };
  const read = Object.entries(inside).map(([key, shape]) => [key, readStringValue(bytes, findMember(shape, key))]);
  return { id: id === undefined ? undefined : (JSON.parse(id) as unknown), method, ...Object.fromEntries(read) };
}

test('S3: an accepted message is the same to a reader that ends names at NUL', () => {
  const ends = fc.constantFrom('', '', '', '\\u0000', '\\u0000x', '\\u0001', ' ', '\\u200b', '\\ud800');
  const member = (name: string, value: fc.Arbitrary<string>) =>
    fc.array(fc.tuple(ends, value), { maxLength: 2 }).map((all) => all.map(([end, text]) => `"${name}${end}":${text}`));
  const object = (...members: fc.Arbitrary<string[]>[]) =>
    fc
      .tuple(...members)
      .chain((all) => fc.shuffledSubarray(all.flat()))
      .map((all) => `{${all.join(',')}}`);
  const word = fc.constantFrom('"a"', '"b"');
  const meta = object(member('progressToken', word));
  const params = object(member('name', word), member('uri', word), member('_meta', meta));
  const text = object(
    fc.constant(['"jsonrpc":"2.0"']),
    member('id', fc.constantFrom('1', '2')),
    member('method', fc.constantFrom('"tools/call"', '"ping"')),
    member('params', params),
  );
  let passed = 0;
  const keep = (sent: string) => {
    try {
      checkMessage(sent);
      return true;
    } catch (fault) {
      if (fault instanceof MessageError) return false;
      throw fault;
    }
  };
  fc.assert(
    fc.property(text, (sent) => {
      if (!keep(sent)) return;
      passed++;
      const { id, method, params = {} } = readLikeC(sent) as Record<string, never>;
      const { name, uri, _meta } = params as Record<string, { progressToken?: unknown }>;
      const inC = { id, method, name, uri, progressToken: _meta?.progressToken };
      expect(describeMessage(readMessage(Buffer.from(sent)))).toEqual(inC);
    }),
    { numRuns: counts(1000, 20_000) },
  );
  expect(passed).toBeGreaterThan(0);
});

describe('messages of a caller', () => {
  test.each([
    ['a name twice', '"name":"a","name":"b"'],
    ['a name twice, once escaped', '"name":"a","n\\u0061me":"b"'],
    ['another case', '"name":"a","Name":"b"'],
    ['another case alone', '"NAME":"a"'],
    ['arguments in another case', '"name":"a","Arguments":{}'],
    ['arguments by Unicode folding', '"name":"a","argumentſ":{}'],
    ['requestState by Unicode folding', '"name":"a","reque\\u017ftState":"x"'],
    ['a kelvin sign for a k', '"name":"a","tas\u212aId":"x"'],
    ['_meta twice', '"_meta":{},"_meta":{}'],
    ['_meta in another case', '"name":"a","_Meta":{}'],
    ['an unknown name twice', '"x":1,"x":2'],
    ['twice among many', `${Array.from({ length: 20 }, (_, i) => `"k${i}":0`).join(',')},"k3":1`],
    ['a key of _meta twice', '"_meta":{"a":1,"a":2}'],
    ['a key of _meta in two spellings', '"_meta":{"x/a":1,"X/a":2}'],
    ['a progress token in another case', '"_meta":{"ProgressToken":1}'],
    ['a reserved key in another case', '"_meta":{"io.modelcontextprotocol/ProtocolVersion":"x"}'],
    ['a reserved prefix in another case', '"_meta":{"IO.modelcontextprotocol/related-task":{"taskId":"x"}}'],
    ['a reserved key by Unicode folding', '"_meta":{"io.modelcontextprotocol/related-taſk":{"taskId":"x"}}'],
    ['a task id twice', `"_meta":{${relatedTask}:{"taskId":"a","taskId":"b"}}`],
    ['a name that ends at NUL', '"name\\u0000":"b","name":"a"'],
    ['a name that goes on after NUL', '"name":"a","name\\u0000x":"b"'],
    ['a name with NUL inside', '"name":"a","na\\u0000me":"b"'],
    ['a name with a space', '"name":"a"," name":"b"'],
    ['a name with what nobody sees', '"name":"a","na\u200bme":"b"'],
    ['a name with half a pair', '"name":"a","name\\ud800":"b"'],
    ['_meta that ends at NUL', '"_meta\\u0000":{},"_meta":{}'],
    ['a progress token that ends at NUL', '"_meta":{"progressToken\\u0000":1}'],
    ['a key of _meta that ends at NUL', '"_meta":{"x/a\\u0000":1,"x/a":2}'],
    ['a task id that ends at NUL', `"_meta":{${relatedTask}:{"taskId\\u0000":"b","taskId":"a"}}`],
    ['a task id in another case', `"_meta":{${relatedTask}:{"taskId":"a","TaskId":"b"}}`],
  ])('%s is refused', (_name, params) => {
    expect(() => checkMessage(composeCall(params))).toThrow(MessageError);
  });

  test.each([
    ['names of the protocol', '"name":"a","arguments":{},"_meta":{"progressToken":1}'],
    ['names it does not know', '"name":"a","NAMES":1,"nam":2,"N":3'],
    ['keys of _meta it does not know', '"_meta":{"io.modelcontextprotocol/Other":1,"com.example/Key":2}'],
    ['names of Object', '"constructor":1,"__proto__":{},"toString":2'],
  ])('%s are fine', (_name, params) => {
    expect(() => checkMessage(composeCall(params))).not.toThrow();
  });

  test.each(['tools/call', 'initialize', 'ping', 'tasks/cancel', 'resources/read'])(
    '%s without an id is refused',
    (method) => {
      expect(() => checkMessage(`{"jsonrpc":"2.0","method":"${method}","params":{}}`)).toThrow(MessageError);
      expect(() => checkMessage(`{"jsonrpc":"2.0","method":"${method}"}`)).toThrow(MessageError);
    },
  );

  test.each(['notifications/cancelled', 'notifications/progress', 'notifications/acme'])(
    '%s with an id is refused',
    (method) => {
      expect(() => checkMessage(`{"jsonrpc":"2.0","id":1,"method":"${method}"}`)).toThrow(MessageError);
    },
  );

  test.each(['acme/do', 'initialized', 'pings', '$/x'])('%s may be either', (method) => {
    expect(() => checkMessage(`{"jsonrpc":"2.0","id":1,"method":"${method}"}`)).not.toThrow();
    expect(() => checkMessage(`{"jsonrpc":"2.0","method":"${method}"}`)).not.toThrow();
  });

  test('a tool may use any names in its arguments', () => {
    fc.assert(
      fc.property(valueText, (value) => {
        checkMessage(
          composeCall(`"name":"a","arguments":{"Name":1,"name":2,"name":3,"_meta":{},"_Meta":{},"x":${value}}`),
        );
      }),
    );
  });

  test('other methods may use any parameters, except for _meta', () => {
    expect(() => checkMessage(composeCall('"Name":"a","URI":1', 'acme/do'))).not.toThrow();
    expect(() => checkMessage(composeCall('"_Meta":{"ambit/context":{}}', 'acme/do'))).toThrow(MessageError);
    expect(() => checkMessage(composeCall('"_meta":{},"_META":{"ambit/context":{}}', 'acme/do'))).toThrow(MessageError);
  });

  test.each([
    ['_meta twice', '"result":{"_meta":{},"_meta":{"ambit/context":{}}}'],
    ['_meta in another case', '"result":{"action":"accept","_Meta":{"ambit/context":{}}}'],
    ['a key of _meta twice', '"result":{"_meta":{"a":1,"\\u0061":2}}'],
    ['an action twice', '"result":{"action":"decline","action":"accept"}'],
    ['params beside the result', '"result":{},"params":{"_meta":{"ambit/context":{}}}'],
    ['params beside the error', '"error":{"code":1,"message":""},"params":{}'],
  ])('an answer to a push with %s is refused', (_name, members) => {
    expect(() => checkMessage(`{"jsonrpc":"2.0","id":1,${members}}`)).toThrow(MessageError);
  });

  test.each([
    '"result":{"action":"accept","content":{"a":1,"A":2,"a":3},"_meta":{"x/y":1}}',
    '"result":{"Action":"accept"}',
    '"result":null',
    '"error":{"code":1,"message":"","data":{"a":1,"a":2}}',
  ])('an answer to a push with %s is fine', (members) => {
    expect(() => checkMessage(`{"jsonrpc":"2.0","id":1,${members}}`)).not.toThrow();
  });
});

test.each([
  '"id":1,"result\\u0000":{},"result":{}',
  '"id\\u0000":2,"id":1,"result":{}',
  '"id":1,"result":{"inputRequests\\u0000":{}}',
  '"id":1,"result":{"tools":[],"tools\\u0000x":[]}',
  '"id":1,"result":{"content\u200b":[],"content":[]}',
  '"id":1,"result":{"_meta\\u0000":{"ambit/context":{}}}',
  '"id":1,"result":{"task":{"taskId\\u0000":"b","taskId":"a"}}',
  '"method":"notifications/progress","params":{"progressToken\\u0000":2,"progressToken":1}',
  '"method":"notifications/message","params":{"_meta":{"io.modelcontextprotocol/related-task\\u0000":{}}}',
])('S3: a message of a server with %s is unreadable', (members) => {
  expect(() => readServerMessage(Buffer.from(`{"jsonrpc":"2.0",${members}}`))).toThrow(MessageError);
});

test('a server may use any other names', () => {
  const members = '"id":1,"result":{"Content":1,"größe":2,"a b":3,"x\\u0000":4,"_meta":{"größe":1}}';
  expect(readServerMessage(Buffer.from(`{"jsonrpc":"2.0",${members}}`)).kind).toBe('response');
});
