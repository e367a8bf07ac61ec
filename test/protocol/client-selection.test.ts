import { describe, expect, test } from 'vitest';
import { contradictory, createWorkspaceReader } from '../../src/protocol/client-selection.ts';
import { readMessage } from '../../src/protocol/message.ts';

const readRequest = (meta: string) =>
  readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":${meta}}}`));

describe('the announced workspace', () => {
  const read = createWorkspaceReader(['ambit', 'orbit']);
  test.each([
    ['{}', undefined],
    ['{"ambit":{"workspace":"w"}}', 'w'],
    ['{"ambit.workspace":"w"}', 'w'],
    ['{"orbit":{"workspace":"w","more":1},"ambit":{}}', 'w'],
    ['{"orbit.workspace":"w","ambit":{"workspace":""}}', 'w'],
    ['{"ambit":{"workspace":"w"},"orbit.workspace":"w"}', 'w'],
    ['{"ambit":{"workspace":"w"},"orbit.workspace":"v"}', contradictory],
    ['{"ambit":{"workspace":"w","workspace":"v"}}', contradictory],
    ['{"ambit":{"workspace":"","workspace":""}}', contradictory],
    ['{"ambit":{"workspace":{"workspace":"w"}}}', undefined],
    ['{"ambit":"w","orbit":["w"],"ambit.workspace":null}', undefined],
    [
      '{"AMBIT":{"workspace":"w"},"ambit/workspace":"w","ambit.Workspace":"w","x":{"ambit":{"workspace":"w"}}}',
      undefined,
    ],
  ])('%s', (meta, expected) => {
    expect(read(readRequest(meta))).toBe(expected);
  });
  test('without keys no workspace is announced', () => {
    expect(createWorkspaceReader([])(readRequest('{"ambit":{"workspace":"w"}}'))).toBeUndefined();
  });
});
