import { expect, test } from 'vitest';
import { namingAskers } from '../../src/gateway/aggregate/naming-askers.ts';

/** The params of one question, given as JSON text, in the answer of the server "evil" as the client gets it. */
function asked(params: string, method = 'elicitation/create'): string {
  const inputRequests = `{"q":{"method":"${method}","params":${params}}}`;
  const text = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":${inputRequests}}}`;
  const reply = namingAskers({ kind: 'message', bytes: Buffer.from(text) }, 'evil');
  const said = reply.kind === 'message' ? reply.bytes.toString() : '';
  return said.slice(said.indexOf('"params":') + '"params":'.length, -'}}}}'.length);
}

test.each([
  ['{"message":"PIN?"}', '{"message":"evil asks: PIN?"}'],
  ['{"message":"bank asks: PIN?"}', '{"message":"evil asks: bank asks: PIN?"}'],
  // Its own name elsewhere in the question does not count.
  ['{"message":"PIN?","title":"evil asks: x"}', '{"message":"evil asks: PIN?","title":"evil asks: x"}'],
  ['{"message":"bank or evil asks: x"}', '{"message":"evil asks: bank or evil asks: x"}'],
  // Readers differ in which of two they take.
  ['{"message":"a","message":"b"}', '{"message":"evil asks: a","message":"evil asks: b"}'],
  // The bridge has named it already.
  ['{"message":"evil asks: PIN?"}', '{"message":"evil asks: PIN?"}'],
])('a question to a person says which server asks: %s', (params, expected) => {
  expect(asked(params)).toBe(expected);
});

test('a question that is not for a person stays as it is', () => {
  expect(asked('{"message":"PIN?"}', 'sampling/createMessage')).toBe('{"message":"PIN?"}');
});
