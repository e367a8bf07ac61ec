import { describe, expect, test } from 'vitest';
import { readCacheable } from '../../../src/gateway/cache/result-cache.ts';

const terms = { ttlMs: 60_000, severalUsers: false, from: 'x' };
const readResult = (result: string, more: Partial<typeof terms> = {}) =>
  readCacheable(
    { kind: 'message', bytes: Buffer.from(`{"jsonrpc":"2.0","result":${result},"id":7}`), status: 200 },
    { ...terms, ...more },
  );

describe('what may be given again', () => {
  test.each(['{"content":[]}', '{"resultType":"complete","content":[]}', '{"content":[],"isError":false}'])(
    '%s',
    (result) => {
      const found = readResult(result);
      expect(found?.ttlMs).toBe(60_000);
      const { bytes, id } = found?.kept ?? { bytes: Buffer.alloc(0), id: { start: 0, end: 0 } };
      expect(bytes.subarray(id.start, id.end).toString()).toBe('7');
    },
  );

  test.each([
    '{"content":[],"isError":true}',
    '{"content":[],"isError":"false"}',
    '{"isError":false,"content":[],"isError":true}',
    '{"isError":false,"content":[],"isErr\\u006fr":true}',
    '{"resultType":"input_required","inputRequests":{}}',
    '{"resultType":"task","task":{"taskId":"t"}}',
    '{"resultType":7,"content":[]}',
    '{"task":{"taskId":"t"}}',
    '{"content":[],"requestState":"s"}',
    '{"content":[],"inputRequests":{}}',
    '{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}',
    '{"content":[],"_meta":{"io.modelcontextprotocol/subscriptionId":"7"}}',
    '{"content":[],"ttlMs":0}',
    '{"content":[],"ttlMs":-1}',
    '{"content":[],"ttlMs":"60000"}',
    '{"content":[],"ttlMs":null}',
    '{"content":[],"cacheScope":"secret"}',
    '{"content":[],"cacheScope":null}',
    '[]',
    'null',
  ])('not %s', (result) => {
    expect(readResult(result)).toBeUndefined();
  });

  test('no error, and nothing that is no message', () => {
    const bytes = Buffer.from('{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":7}');
    expect(readCacheable({ kind: 'message', bytes }, terms)).toBeUndefined();
    expect(readCacheable({ kind: 'accepted' }, terms)).toBeUndefined();
  });

  test('never for longer than either says', () => {
    expect(readResult('{"content":[],"ttlMs":500}')?.ttlMs).toBe(500);
    expect(readResult('{"content":[],"ttlMs":500000}')?.ttlMs).toBe(60_000);
    expect(readResult('{"content":[],"ttlMs":1.5}')?.ttlMs).toBe(1.5);
  });

  test('what is private stays with one user; what is public gets no wider', () => {
    expect(readResult('{"content":[],"cacheScope":"private"}')).toBeDefined();
    expect(readResult('{"content":[],"cacheScope":"private"}', { severalUsers: true })).toBeUndefined();
    expect(readResult('{"content":[],"cacheScope":"public"}', { severalUsers: true })).toBeDefined();
    expect(readResult('{"content":[]}', { severalUsers: true })).toBeDefined();
  });
});
