import { describe, expect, test } from 'vitest';
import { announcedBy, contradictory } from '../../src/protocol/client-selection.ts';
import { applyEdits } from '../../src/protocol/json/edit.ts';
import { readMessage } from '../../src/protocol/message.ts';
import { ourKeys, stripOurKeys, stripReservedBaggage } from '../../src/protocol/reserved-meta.ts';

const request = (meta: string) =>
  readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":${meta}}}`));
const stripped = (meta: string, keys: readonly string[]) => {
  const message = request(meta);
  return applyEdits(message.bytes, stripOurKeys(message, ourKeys(keys))).toString();
};

describe('what a client announces', () => {
  const read = announcedBy(['ambit', 'orbit']);
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
    expect(read(request(meta))).toBe(expected);
  });
  test('without keys nothing is announced', () => {
    expect(announcedBy([])(request('{"ambit":{"workspace":"w"}}'))).toBeUndefined();
  });
});

describe('keys that a client may announce under', () => {
  test.each([
    [['ambit'], '{"orbit":1,"k":1}', '{"orbit":1,"k":1}'],
    [['orbit'], '{"ORBIT":1,"k":1,"ambit":1,"Orbit.Workspace":2}', '{"k":1}'],
    [['orbit'], '{"orbit.other":1,"orbit/x":1,"orbits":1}', '{"orbit.other":1,"orbit/x":1,"orbits":1}'],
    [['io'], '{"io.modelcontextprotocol/x":1,"io":1}', '{"io.modelcontextprotocol/x":1}'],
    [['kite'], '{"\u212aite":1,"k":1}', '{"k":1}'],
    [[], '{"ambit":1,"amb\u0131t.x":1,"k":1}', '{"k":1}'],
  ])('with %j, of %s stays %s', (keys, meta, expected) => {
    expect(stripped(meta, keys)).toContain(`"_meta":${expected}}`);
  });
});

describe('W3C baggage', () => {
  test('S4: one that is longer than has to be passed on is left out, and not searched', () => {
    expect(stripReservedBaggage(`a=1,${'b'.repeat(8188)}`)).toHaveLength(8192);
    expect(stripReservedBaggage(','.repeat(2 ** 20))).toBe('');
  });

  test.each([
    ['a=1,b=2', 'a=1,b=2'],
    ['', ''],
    ['a=1 , ambit=2 ,b = %20 ;p=1', 'a=1 ,b = %20 ;p=1'],
    ['ambit.session=1', ''],
    ['AMBIT-x=1,a=ambit', 'a=ambit'],
    ['%61mbit=1,%41%4D%42%49%54=2,amb%C4%B1t=3,a=1', 'a=1'],
    ['%zzambit=1,%2561mbit=1', '%zzambit=1,%2561mbit=1'],
    [' \tambit ;x=1,ambit', ''],
    ['a=1,,b=2', 'a=1,,b=2'],
  ])('of %j stays %j', (given, expected) => {
    expect(stripReservedBaggage(given)).toBe(expected);
  });

  test.each([
    ['{"baggage":"a=1","k":1}', '{"baggage":"a=1","k":1}'],
    ['{"k":1,"baggage":"a=é,ambit=1"}', '{"k":1,"baggage":"a=é"}'],
    ['{"k":1,"Baggage":"ambit=1","ambit":2}', '{"k":1}'],
    ['{"baggage":"\\u0061mbit=1,b=2"}', '{"baggage":"b=2"}'],
    ['{"baggage":["ambit=1"],"k":1}', '{"baggage":["ambit=1"],"k":1}'],
  ])('%s goes on as %s', (meta, expected) => {
    expect(stripped(meta, ['ambit'])).toContain(`"_meta":${expected}}`);
  });
});
