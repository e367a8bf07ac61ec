import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { callDigest } from '../../../src/gateway/cache/call-digest.ts';
import { readMessage } from '../../../src/protocol/message.ts';

const digestOf = (params: string) =>
  callDigest(readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`)));
const plain = digestOf('{"name":"t","arguments":{"a":1,"b":[true,null]}}');

describe('what a call asks', () => {
  test.each([
    '{"arguments":{"b":[true,null],"a":1},"name":"t"}',
    '{ "name" : "t", "arguments" : { "a" : 1.0, "b" : [ true, null ] } }',
    '{"name":"t","arguments":{"\\u0061":1,"b":[true,null]},"_meta":{}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null]},"_meta":{"progressToken":7,"traceparent":"00-x"}}',
  ])('is the same however it is written: %s', (params) => {
    expect(plain).toBeDefined();
    expect(digestOf(params)).toBe(plain);
  });

  test('a call without arguments asks what one with none does', () => {
    expect(digestOf('{"name":"t"}')).toBe(digestOf('{"name":"t","arguments":{}}'));
  });

  test.each([
    '{"name":"t","arguments":{"a":2,"b":[true,null]}}',
    '{"name":"t","arguments":{"a":"1","b":[true,null]}}',
    '{"name":"t","arguments":{"a":1,"b":[null,true]}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null],"c":null}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null]},"_meta":{"tenant":"x"}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null],"__proto__":{}}}',
  ])('is another with anything else: %s', (params) => {
    expect(digestOf(params)).toBeDefined();
    expect(digestOf(params)).not.toBe(plain);
  });

  test.each([
    ['a number no double holds', '{"name":"t","arguments":{"a":12345678901234567890}}'],
    ['half a character', '{"name":"t","arguments":{"a":"\\ud800"}}'],
    ['a name twice', '{"name":"t","arguments":{"a":1,"a":2}}'],
    ['arguments twice', '{"name":"t","arguments":{"a":1},"arguments":{"a":2}}'],
    ['the tool twice', '{"name":"t","name":"u","arguments":{}}'],
    ['another spelling', '{"name":"t","Arguments":{"a":1}}'],
    ['an answer to a question', '{"name":"t","arguments":{},"inputResponses":{}}'],
    ['a state to go on from', '{"name":"t","arguments":{},"requestState":"s"}'],
    ['a task', '{"name":"t","arguments":{},"task":{"ttl":1}}'],
    ['anything unknown', '{"name":"t","arguments":{},"x":1}'],
  ])('has no digest with %s', (_what, params) => {
    let digest: string | undefined;
    try {
      digest = digestOf(params);
    } catch {
      // Then it is no message at all.
    }
    expect(digest).toBeUndefined();
  });

  test('different arguments never have the same', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.dictionary(fc.string(), fc.jsonValue()),
        (one, two) => {
          const [a, b] = [one, two].map((args) => digestOf(`{"name":"t","arguments":${JSON.stringify(args)}}`));
          if (a !== undefined && a === b)
            expect(JSON.parse(JSON.stringify(one))).toEqual(JSON.parse(JSON.stringify(two)));
        },
      ),
    );
  });
});
