import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { insertMeta } from '../../src/protocol/insert-meta.ts';
import { applyEdits } from '../../src/protocol/json/edit.ts';
import { findMember, readRawValue } from '../../src/protocol/json/scan.ts';
import { readMessage } from '../../src/protocol/message.ts';
import { isReservedKey, stripReservedMeta } from '../../src/protocol/reserved-meta.ts';
import { counts } from '../proof.ts';
import { stringText, valueText } from './json/json-texts.ts';

const ours = '"ambit/context":{"sessionId":"real"}';

/** Removes forged context and inserts the real one, as for every upstream. */
function insertContext(text: string): string {
  const message = readMessage(Buffer.from(text));
  const stripped = stripReservedMeta(message);
  return applyEdits(message.bytes, [...stripped, insertMeta(message, ours, stripped)]).toString();
}

describe('insertMeta', () => {
  const params = (inside: string) => `{"jsonrpc":"2.0","id":1,"method":"m","params":{${inside}}}`;

  test.each([
    [
      'no params',
      '{"jsonrpc":"2.0","id":1,"method":"m"}',
      `{"params":{"_meta":{${ours}}},"jsonrpc":"2.0","id":1,"method":"m"}`,
    ],
    ['empty params', params(''), params(`"_meta":{${ours}}`)],
    ['empty params with space', params(' '), params(`"_meta":{${ours}} `)],
    ['params without it', params('"a":1'), params(`"_meta":{${ours}},"a":1`)],
    ['an empty one', params('"_meta":{}'), params(`"_meta":{${ours}}`)],
    ['an empty one with space', params('"_meta":{ }'), params(`"_meta":{${ours} }`)],
    ['one that stays', params('"_meta":{"k":1}'), params(`"_meta":{${ours},"k":1}`)],
    ['only a forged one', params('"_meta":{"ambit/context":1}'), params(`"_meta":{${ours}}`)],
    ['only forged ones', params('"_meta":{ "ambit/a":1 , "AMBIT/b":2 }'), params(`"_meta":{${ours}  }`)],
    ['forged first', params('"_meta":{"ambit/a":1,"k":1}'), params(`"_meta":{${ours},"k":1}`)],
    ['forged last', params('"_meta":{"k":1,"ambit/a":1}'), params(`"_meta":{${ours},"k":1}`)],
    ['forged around', params('"_meta":{"ambit/a":1,"k":1,"ambit/b":1}'), params(`"_meta":{${ours},"k":1}`)],
    ['forged between', params('"_meta":{"k":1,"ambit/b":1,"l":2}'), params(`"_meta":{${ours},"k":1,"l":2}`)],
  ])('into %s', (_name, text, expected) => {
    expect(insertContext(text)).toBe(expected);
  });

  test.each(['1', '"x"', 'null', '[]', '[{"ambit/context":1}]', 'true'])('refuses where _meta is %s', (meta) => {
    expect(() => insertContext(params(`"_meta":${meta}`))).toThrow(expect.objectContaining({ rpc: -32602 }));
  });

  const spelled = (key: string) =>
    fc
      .array(fc.boolean(), { minLength: key.length, maxLength: key.length })
      .map((escapes) =>
        [...key].map((c, i) => (escapes[i] ? `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}` : c)).join(''),
      );
  const forged = fc
    .constantFrom('ambit/context', 'AMBIT/context', 'Ambit/Context', 'ambit/', 'ambit/context/x')
    .chain(spelled)
    .map((key) => `"${key}"`);
  const space = fc.constantFrom('', ' ', '\n ', '\t');
  const member = (key: fc.Arbitrary<string>) =>
    fc.record({ before: space, key, colon: space, value: valueText, after: space });
  const written = (parts: { before: string; key: string; colon: string; value: string; after: string }) =>
    `${parts.before}${parts.key}${parts.colon}:${parts.value}${parts.after}`;

  test('P4: for any message, the result is JSON with exactly our context, and the rest is unchanged', () => {
    const meta = fc.uniqueArray(member(fc.oneof(forged, stringText)), {
      maxLength: 6,
      selector: ({ key }) => JSON.parse(key) as string,
    });
    const others = fc.uniqueArray(member(stringText), {
      maxLength: 4,
      selector: ({ key }) => JSON.parse(key) as string,
    });
    const notMeta = (key: string) =>
      !['_meta', 'inputresponses', 'inputrequests'].includes((JSON.parse(key) as string).toLowerCase());
    fc.assert(
      fc.property(fc.option(meta, { nil: undefined }), others, fc.nat(4), (given, beside, at) => {
        const plain = beside.filter(({ key }) => notMeta(key)).map(written);
        const inside =
          given === undefined ? plain : plain.toSpliced(at, 0, `"_meta":{${given.map(written).join(',')}}`);
        const result = readMessage(Buffer.from(insertContext(params(inside.join(',')))));
        const members = result.meta?.members ?? [];
        const own = members.filter(({ key }) => isReservedKey(key));
        expect(own.map((each) => result.bytes.toString('utf8', each.keyStart, each.end))).toEqual([ours]);
        expect(members[0]).toBe(own[0]);
        const kept = members.slice(1).map((each) => [each.key, readRawValue(result.bytes, each)]);
        const expected = (given ?? []).map(({ key, value }) => [JSON.parse(key) as string, value] as const);
        expect(kept).toEqual(expected.filter(([key]) => !isReservedKey(key)));
        const rest = (result.params?.shape?.members ?? []).filter(({ key }) => key !== '_meta');
        expect(rest.map((each) => [each.key, readRawValue(result.bytes, each)])).toEqual(
          beside.filter(({ key }) => notMeta(key)).map(({ key, value }) => [JSON.parse(key), value]),
        );
        expect(JSON.parse(result.bytes.toString()).params._meta['ambit/context']).toEqual({ sessionId: 'real' });
        expect(findMember(result.shape, 'id')).toBeDefined();
      }),
      { numRuns: counts(400, 50_000) },
    );
  });
});
