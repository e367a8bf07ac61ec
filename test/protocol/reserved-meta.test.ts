import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyEdits } from '../../src/protocol/json/edit.ts';
import { readMessage } from '../../src/protocol/message.ts';
import {
  createReservedKeys,
  isReservedKey,
  stripReservedBaggage,
  stripReservedMeta,
} from '../../src/protocol/reserved-meta.ts';
import { valueText } from './json/json-texts.ts';

function stripText(text: string, keys: readonly string[] = []): string {
  const message = readMessage(Buffer.from(text));
  return applyEdits(message.bytes, stripReservedMeta(message, createReservedKeys(keys))).toString();
}

function composeRequest(meta: string): string {
  return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":${meta}}}`;
}

function composeResponse(inside: string): string {
  return `{"jsonrpc":"2.0","id":1,"result":{${inside}}}`;
}

describe('reserved keys', () => {
  test.each([
    'ambit',
    'AMBIT',
    'ambit.workspace',
    'Ambit.',
    'amb\u0131t',
    'ambit/context',
    'ambit/',
    'AMBIT/x',
    'Ambit/Context',
    'aMbIt/error',
    'ambit/context/more',
    'ambit//',
    ' ambit/a',
    '\u200bambit/a',
    'am\0bit/a',
    'ambit\0x',
  ])('%j is reserved', (key) => {
    expect(isReservedKey(key)).toBe(true);
  });

  test.each(['ambition', 'ambit-x', 'ambits', 'xambit/a', 'com.ambit/a', 'ambi/t', 'ämbit/a', 'ambit\\/a', ''])(
    '%j is not',
    (key) => {
      expect(isReservedKey(key)).toBe(false);
    },
  );
});

describe('stripOurKeys', () => {
  const escaped = (text: string) =>
    [...text].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

  test('removes reserved keys in any case and any escape, and nothing else', () => {
    const ours = fc
      .tuple(fc.constantFrom('ambit', 'AMBIT', 'Ambit', 'aMBIt'), fc.constantFrom('context', 'x', '', 'é', 'a/b'))
      .chain(([prefix, rest]) =>
        fc.constantFrom(`${prefix}/${rest}`, escaped(`${prefix}/`) + rest, `${prefix}\\/${rest}`),
      );
    const others = fc.constantFrom('com.example/x', 'progressToken', 'ambition', 'orbit.workspace', 'traceparent', 'é');
    const members = fc.array(fc.tuple(fc.oneof(ours, others), valueText), { maxLength: 8 });
    fc.assert(
      fc.property(members, (pairs) => {
        const text = composeRequest(`{${pairs.map(([key, value]) => `"${key}":${value}`).join(' , ')}}`);
        const kept = pairs.filter(([key]) => !isReservedKey(JSON.parse(`"${key}"`) as string));
        const meta = `{${kept.map(([key, value]) => `"${key}":${value}`).join(' , ')}}`;
        expect(stripText(text)).toBe(composeRequest(meta));
      }),
    );
  });

  test('a message without reserved keys is unchanged', () => {
    const text = composeRequest('{ "a" : 1 }');
    expect(stripText(text)).toBe(text);
  });

  test.each([
    ['twice', '"_meta":{},"_meta":{"ambit/context":1}', '"_meta":{},"_meta":{}'],
    ['twice, ours first', '"_meta":{"ambit/x":1,"a":1},"_meta":{"b":1}', '"_meta":{"a":1},"_meta":{"b":1}'],
    ['in another case', '"_Meta":{"ambit/context":1,"a":2}', '"_Meta":{"a":2}'],
    ['escaped', '"\\u005fmeta":{"\\u0061mbit/context":1}', '"\\u005fmeta":{}'],
  ])('_meta %s hides no reserved key', (_name, inside, expected) => {
    expect(stripText(composeResponse(inside))).toBe(composeResponse(expected));
  });

  test('covers answers inside a retried request', () => {
    const forged = '{"action":"accept","_meta":{"ambit/context":1},"content":{"_meta":{"ambit/context":"mine"}}}';
    const clean = '{"action":"accept","_meta":{},"content":{"_meta":{"ambit/context":"mine"}}}';
    const retry = (answer: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"inputResponses":{"a":${answer},"b":1,"c":${answer}}}}`;
    expect(stripText(retry(forged))).toBe(retry(clean));
  });

  test('covers questions inside a result', () => {
    const asked = (meta: string) =>
      composeResponse(
        `"resultType":"input_required","inputRequests":{"q":{"method":"m","params":{"_meta":${meta},"a":1}},"r":[]}`,
      );
    expect(stripText(asked('{"AMBIT/context":{},"k":1}'))).toBe(asked('{"k":1}'));
  });

  test('arguments and results of a tool are left alone', () => {
    const text = composeRequest('{}').replace('"name":"t"', '"arguments":{"_meta":{"ambit/context":1}}');
    expect(stripText(text)).toBe(text);
    const answer = composeResponse('"structuredContent":{"_meta":{"ambit/context":1}}');
    expect(stripText(answer)).toBe(answer);
  });
});

describe('keys for announcing a workspace', () => {
  test.each([
    [['ambit'], '{"orbit":1,"k":1}', '{"orbit":1,"k":1}'],
    [['orbit'], '{"ORBIT":1,"k":1,"ambit":1,"Orbit.Workspace":2}', '{"k":1}'],
    [['orbit'], '{"orbit.other":1,"orbit/x":1,"orbits":1}', '{"orbit.other":1,"orbit/x":1,"orbits":1}'],
    [['io'], '{"io.modelcontextprotocol/x":1,"io":1}', '{"io.modelcontextprotocol/x":1}'],
    [['kite'], '{"\u212aite":1,"k":1}', '{"k":1}'],
    [[], '{"ambit":1,"amb\u0131t.x":1,"k":1}', '{"k":1}'],
  ])('with %j, %s becomes %s', (keys, meta, expected) => {
    expect(stripText(composeRequest(meta), keys)).toContain(`"_meta":${expected}}`);
  });
});

describe('W3C baggage', () => {
  test('S4: a value over the limit is dropped, and not searched', () => {
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
  ])('%j becomes %j', (given, expected) => {
    expect(stripReservedBaggage(given)).toBe(expected);
  });

  test.each([
    ['{"baggage":"a=1","k":1}', '{"baggage":"a=1","k":1}'],
    ['{"k":1,"baggage":"a=é,ambit=1"}', '{"k":1,"baggage":"a=é"}'],
    ['{"k":1,"Baggage":"ambit=1","ambit":2}', '{"k":1}'],
    ['{"baggage":"\\u0061mbit=1,b=2"}', '{"baggage":"b=2"}'],
    ['{"baggage":["ambit=1"],"k":1}', '{"baggage":["ambit=1"],"k":1}'],
  ])('passes %s on as %s', (meta, expected) => {
    expect(stripText(composeRequest(meta), ['ambit'])).toContain(`"_meta":${expected}}`);
  });
});
