import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readMessage } from '../../src/protocol/message.ts';
import {
  decodeHeaderValue,
  encodeHeaderValue,
  findEnvelopeError,
  type MirroredHeaders,
} from '../../src/protocol/modern-envelope.ts';
import { counts } from '../proof.ts';

const version = '2026-07-28';
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"${version}","io.modelcontextprotocol/clientCapabilities":{}}`;

function findErrorCode(method: string, params: string, headers: Partial<MirroredHeaders>, id = '"id":1,') {
  const message = readMessage(Buffer.from(`{"jsonrpc":"2.0",${id}"method":"${method}","params":{${params}}}`));
  return findEnvelopeError(message, { version, method, name: undefined, ...headers })?.rpc;
}

describe('headers that must agree with the body', () => {
  test.each([
    ['tools/call', '"name":"echo"', { name: 'echo' }, undefined],
    ['tools/call', '"name":"échø"', { name: '=?base64?w6ljaMO4?=' }, undefined],
    ['tools/call', '"n\\u0061me":"\\u0065cho"', { name: 'echo' }, undefined],
    ['tools/call', '"name":"echo"', { name: 'Echo' }, -32020],
    ['tools/call', '"name":"echo"', { name: 'other' }, -32020],
    ['tools/call', '"name":"echo"', {}, -32020],
    ['tools/call', '"name":"échø"', { name: 'échø' }, undefined],
    ['tools/call', '"name":"=?base64?ZWNobw==?="', { name: '=?base64?ZWNobw==?=' }, -32020],
    ['tools/call', '"name":"echo"', { name: '=?base64?gA==?=' }, -32020],
    ['tools/call', '"name":7', { name: '7' }, -32020],
    ['tools/call', '"x":1', { name: 'echo' }, -32020],
    ['tools/call', '"name":"echo"', { name: 'echo', method: 'tools/list' }, -32020],
    ['tools/call', '"name":"echo"', { name: 'echo', method: 'Tools/Call' }, -32020],
    ['tools/call', '"name":"echo"', { name: 'echo', method: undefined }, -32020],
    ['tools/call', '"name":"echo"', { name: 'echo', version: undefined }, -32020],
    ['tools/call', '"name":"echo"', { name: 'echo', version: '2025-11-25' }, -32020],
    ['resources/read', '"uri":"a:b"', { name: 'a:b' }, undefined],
    ['resources/read', '"uri":"a:b","name":"x"', { name: 'x' }, -32020],
    ['prompts/get', '"name":"p"', { name: 'q' }, -32020],
    ['tasks/get', '"taskId":"t"', { name: 't' }, undefined],
    ['tasks/result', '"taskId":"t"', {}, -32601],
    ['initialize', '"x":1', {}, -32601],
    ['tasks/cancel', '"taskId":"t"', { name: 'u' }, -32020],
    ['tools/list', '"name":"x"', {}, undefined],
    ['acme/do', '"name":"x"', {}, undefined],
  ] as const)('%s with %s under %j: %s', (method, params, headers, expected) => {
    expect(findErrorCode(method, `${params},${meta}`, headers)).toBe(expected);
  });

  test('a request without its required description is refused', () => {
    expect(findErrorCode('tools/list', '"_meta":{}', {})).toBe(-32602);
    expect(findErrorCode('tools/list', `"_meta":{"io.modelcontextprotocol/protocolVersion":"${version}"}`, {})).toBe(
      -32602,
    );
    const future = meta.replace(version, '2027-01-01');
    expect(findErrorCode('tools/list', future, { version: '2027-01-01' })).toBe(-32022);
    expect(findErrorCode('tools/list', future, {})).toBe(-32020);
  });

  test('go-sdk: a notification needs no envelope, over HTTP and on stdio', () => {
    expect(findErrorCode('notifications/cancelled', '"requestId":3', { method: undefined }, '')).toBeUndefined();
    const body = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}';
    expect(findEnvelopeError(readMessage(Buffer.from(body)), undefined)).toBeUndefined();
  });

  test('notifications need no headers, but headers must agree', () => {
    expect(findErrorCode('notifications/x', meta, { method: undefined }, '')).toBeUndefined();
    expect(findErrorCode('notifications/x', meta, { method: 'tools/call' }, '')).toBe(-32020);
  });
});

const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('', ' ', ' a', 'a ', '=?', '=?base64?', '=?base64?YQ==?=', 'a\r\nX: b', '\0', '\x7f', 'a\tb'),
);

test('any encoded text is a valid header value, and round-trips', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const value = encodeHeaderValue(text);
      expect(value).toMatch(/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/);
      expect(decodeHeaderValue(value)).toBe(text);
    }),
    { numRuns: counts(400, 20_000) },
  );
});

test('plain names stay readable', () => {
  for (const name of ['echo', 'a b', 'file:///tmp/x?y=1', 'say=?']) expect(encodeHeaderValue(name)).toBe(name);
});

test('two names never share an encoding', () => {
  fc.assert(
    fc.property(anyText, anyText, (a, b) => {
      fc.pre(a !== b);
      expect(encodeHeaderValue(a)).not.toBe(encodeHeaderValue(b));
    }),
  );
});

// UTF-8 cannot encode a lone surrogate; the header then differs from the body, and the upstream refuses it.
test('a lone surrogate becomes the replacement character', () => {
  expect(decodeHeaderValue(encodeHeaderValue('a\ud800'))).toBe('a\ufffd');
});

test.each(['=?base64?', '=?base64?a b?=', '=?base64?gA==?=', '=?base64?YQ==', '=?utf-8?YQ==?=', '=?base64?Y=Q=?='])(
  '%s is broken',
  (value) => {
    expect(decodeHeaderValue(value)).toBeUndefined();
  },
);
