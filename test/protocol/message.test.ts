import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRawValue } from '../../src/protocol/json/scan.ts';
import {
  findIdMember,
  type Message,
  MessageError,
  maxClientValues,
  readClientMessage,
  readMessage,
} from '../../src/protocol/message.ts';
import { stringText, valueText } from './json/json-texts.ts';

function readText(text: string): Message {
  return readMessage(Buffer.from(text));
}

function findMessageError(text: string): MessageError {
  try {
    readText(text);
  } catch (error) {
    if (error instanceof MessageError) return error;
    throw error;
  }
  throw new Error(`accepted: ${text}`);
}

describe('readMessage', () => {
  test.each([
    ['{"jsonrpc":"2.0","id":1,"method":"ping"}', 'request', '1', 'ping'],
    ['{"jsonrpc":"2.0","id":"","method":"a/b","params":{}}', 'request', '""', 'a/b'],
    ['{"method":"\\u0070ing","id":"\\u0061","jsonrpc":"\\u0032.0"}', 'request', '"\\u0061"', 'ping'],
    ['{"jsonrpc":"2.0","method":"notifications/x"}', 'notification', undefined, 'notifications/x'],
    ['{"jsonrpc":"2.0","id":7,"result":null}', 'response', '7', ''],
    ['{"jsonrpc":"2.0","id":7,"error":{"code":1}}', 'response', '7', ''],
    ['{"jsonrpc":"2.0","id":null,"error":{}}', 'response', 'null', ''],
    ['{"jsonrpc":"2.0","error":{}}', 'response', 'null', ''],
    ['{"jsonrpc":"2.0","id":1,"method":"x","extra":{"method":"y"}}', 'request', '1', 'x'],
  ])('%s is a %s', (text, kind, id, method) => {
    const message = readText(text);
    expect([message.kind, message.id, message.method]).toEqual([kind, id, method]);
  });

  test('the id keeps its raw text and its position', () => {
    const safe = fc.maxSafeInteger().map(String);
    fc.assert(
      fc.property(fc.oneof(safe, stringText), valueText, (id, extra) => {
        const message = readText(`{"jsonrpc":"2.0","x":${extra},"id": ${id} ,"method":"m"}`);
        expect(message.id).toBe(id);
        expect(readRawValue(message.bytes, findIdMember(message))).toBe(id);
      }),
    );
  });

  test.each(['null', '1.5', '1.0', '1e3', '1E0', 'true', '[]', '{}', '-0', '9007199254740992', '-9007199254740992'])(
    'the id %s is refused on a request and on a result',
    (id) => {
      expect(findMessageError(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`).isNotJson).toBe(false);
      expect(findMessageError(`{"jsonrpc":"2.0","id":${id},"result":{}}`).isNotJson).toBe(false);
    },
  );

  test.each(['0', '-1', '9007199254740991', '-9007199254740991', '""', '"1.5"', '"\\ud800"'])(
    'the id %s is fine',
    (id) => {
      expect(readText(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`).id).toBe(id);
    },
  );

  test.each([
    '{}',
    '{"jsonrpc":"2.0"}',
    '{"jsonrpc":2.0,"id":1,"method":"x"}',
    '{"jsonrpc":"1.0","id":1,"method":"x"}',
    '{"id":1,"method":"x"}',
    '{"jsonrpc":"2.0","id":1,"method":""}',
    '{"jsonrpc":"2.0","id":1,"method":7}',
    '{"jsonrpc":"2.0","id":1,"method":["x"]}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":[]}',
    '{"jsonrpc":"2.0","id":1,"method":"x","params":null}',
    '{"jsonrpc":"2.0","id":1,"method":"x","result":{}}',
    '{"jsonrpc":"2.0","id":1,"method":"x","error":{}}',
    '{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    '{"jsonrpc":"2.0","id":1,"error":"no"}',
    '{"jsonrpc":"2.0","result":{}}',
  ])('%s is JSON but no message', (text) => {
    expect(findMessageError(text).isNotJson).toBe(false);
  });

  test.each(['', 'x', '[]', '"a"', '{"jsonrpc":"2.0",}', '{"jsonrpc":"2.0"}{}'])('%j is not even JSON', (text) => {
    expect(findMessageError(text).isNotJson).toBe(true);
  });

  const whole = { jsonrpc: '"2.0"', id: '1', method: '"x"', params: '{}' };
  const names = [...Object.keys(whole), 'result', 'error'];

  test.each(names)('"%s" twice, in another case, escaped or folded, is refused', (name) => {
    const members = Object.entries(whole).map(([key, value]) => `"${key}":${value}`);
    const first = name.charAt(0);
    const spellings = [
      name,
      name.toUpperCase(),
      first.toUpperCase() + name.slice(1),
      `\\u00${first.charCodeAt(0).toString(16)}${name.slice(1)}`,
      // Readers that fold by Unicode's rules, such as Go's, take these for an s and a k.
      ...(name.includes('s') ? [name.replace('s', 'ſ'), name.replace('s', '\\u017f')] : []),
    ];
    for (const spelling of spellings) {
      for (const text of [`{${members.join(',')},"${spelling}":1}`, `{"${spelling}":1,${members.join(',')}}`]) {
        expect(findMessageError(text).isNotJson).toBe(false);
      }
    }
  });

  test('leading space stays, so that positions hold; text after the object is removed', () => {
    const message = readText(' \n{"jsonrpc":"2.0","id":5,"method":"x"} \n');
    expect(message.bytes.toString()).toBe(' \n{"jsonrpc":"2.0","id":5,"method":"x"}');
    expect(readRawValue(message.bytes, findIdMember(message))).toBe('5');
  });

  test('_meta is found in params and in results, and only as an object', () => {
    expect(readText('{"jsonrpc":"2.0","method":"x","params":{"_meta":{"k":1}}}').meta?.members).toHaveLength(1);
    expect(readText('{"jsonrpc":"2.0","id":1,"result":{"_meta":{"k":1}}}').meta?.members).toHaveLength(1);
    expect(readText('{"jsonrpc":"2.0","method":"x","params":{"_meta":[]}}').meta).toBeUndefined();
    expect(readText('{"jsonrpc":"2.0","method":"x","_meta":{"k":1}}').meta).toBeUndefined();
  });
});

describe('S7: values of one message', () => {
  const call = (values: string) =>
    Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":${values}}}`);

  test.each([
    ['numbers', (count: number) => `{"a":[${Array(count - 2).fill('1e9')}]}`],
    ['objects', (count: number) => `{"a":[${Array((count - 2) / 2).fill('{"k":1.5}')}]}`],
  ])('a client may send 100,000 of them: %s', (_what, values) => {
    expect(readClientMessage(call(values(maxClientValues))).method).toBe('tools/call');
    const crowded = call(values(maxClientValues + 2));
    expect(() => readClientMessage(crowded)).toThrow('more than 100000 values');
    expect(readMessage(crowded).method).toBe('tools/call');
  });

  test('an error of a message has no stack, which would cost more than the message', () => {
    for (const text of ['x', '{', '{}']) {
      expect(() => readMessage(Buffer.from(text))).toThrow(
        expect.objectContaining({ stack: expect.not.stringMatching(/^ +at /m) }),
      );
    }
    expect(new Error('other').stack).toMatch(/^ +at /m);
  });
});

describe('S7: keys of one object', () => {
  const keys = (count: number) => `{${Array.from({ length: count }, (_, i) => `"${i}":0`).join(',')}}`;
  const places: Record<string, (object: string) => string> = {
    'the message itself': (object) => `${object.slice(0, -1)},"jsonrpc":"2.0","method":"x"}`,
    params: (object) => `{"jsonrpc":"2.0","method":"x","params":${object}}`,
    _meta: (object) => `{"jsonrpc":"2.0","method":"x","params":{"_meta":${object}}}`,
    arguments: (object) => `{"jsonrpc":"2.0","method":"x","params":{"arguments":${object}}}`,
    'an object deep inside': (object) => `{"jsonrpc":"2.0","method":"x","params":{"a":[{"b":1},{"c":[${object},2]}]}}`,
  };

  test.each(Object.entries(places))('in %s a client may send 10,000 of them', (_where, within) => {
    const room = within === places['the message itself'] ? 9998 : 10_000;
    expect(readClientMessage(Buffer.from(within(keys(room)))).method).toBe('x');
    const crowded = Buffer.from(within(keys(room + 1)));
    expect(() => readClientMessage(crowded)).toThrow('more than 10000 keys');
    expect(readMessage(crowded).method).toBe('x');
  });

  test('separate objects are counted separately', () => {
    const text = `{"jsonrpc":"2.0","method":"x","params":{"a":[${keys(6000)},${keys(6000)},{"b":${keys(6000)}}]}}`;
    expect(readClientMessage(Buffer.from(text)).method).toBe('x');
  });
});
