import { describe, expect, test } from 'vitest';
import { readMessage } from '../../../../src/protocol/message.ts';
import { modernised, withId, withoutModernParts } from '../../../../src/upstreams/links/bridge/result-edits.ts';

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
    expect(resultOf(modernised(result(inner), method))).toEqual(expected);
  });

  test('a resource that is not found has the code of the new era, and other errors their own', () => {
    const error = (code: number) => read(`{"jsonrpc":"2.0","id":1,"error":{"code":${code},"message":"m"}}`);
    const codeOf = (bytes: Buffer) => (JSON.parse(bytes.toString()) as { error: { code: number } }).error.code;
    expect(codeOf(modernised(error(-32002), 'resources/read'))).toBe(-32602);
    expect(codeOf(modernised(error(-32603), 'resources/read'))).toBe(-32603);
  });
});

describe('a modern answer for a handshake-era client', () => {
  test('has nothing only the new era knows, and the rest byte for byte', () => {
    const answer = result('{"resultType":"complete","n":9007199254740993,"ttlMs":1,"cacheScope":"public"}');
    expect(withoutModernParts(answer).toString()).toBe('{"jsonrpc":"2.0","id":1,"result":{"n":9007199254740993}}');
  });

  test('an error stays as it is', () => {
    const answer = read('{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}');
    expect(withoutModernParts(answer)).toBe(answer.bytes);
  });
});

test('another id takes the place of the first', () => {
  expect(withId(result('{}'), '"seven"').toString()).toBe('{"jsonrpc":"2.0","id":"seven","result":{}}');
});
