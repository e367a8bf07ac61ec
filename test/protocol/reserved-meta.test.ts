import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { applyEdits } from '../../src/protocol/json/edit.ts';
import { readMessage } from '../../src/protocol/message.ts';
import { isOurKey, stripOurKeys } from '../../src/protocol/reserved-meta.ts';
import { valueText } from './json/json-texts.ts';

function stripped(text: string): string {
  const message = readMessage(Buffer.from(text));
  return applyEdits(message.bytes, stripOurKeys(message)).toString();
}

function request(meta: string): string {
  return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":${meta}}}`;
}

function result(inside: string): string {
  return `{"jsonrpc":"2.0","id":1,"result":{${inside}}}`;
}

describe('our keys', () => {
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
  ])('%j is ours', (key) => {
    expect(isOurKey(key)).toBe(true);
  });

  test.each(['ambition', 'ambit-x', 'ambits', 'xambit/a', 'com.ambit/a', 'ambi/t', 'ämbit/a', 'ambit\\/a', ''])(
    '%j is not',
    (key) => {
      expect(isOurKey(key)).toBe(false);
    },
  );
});

describe('stripOurKeys', () => {
  const escaped = (text: string) =>
    [...text].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

  test('takes ours out in any case and any escape, and nothing else', () => {
    const ours = fc
      .tuple(fc.constantFrom('ambit', 'AMBIT', 'Ambit', 'aMBIt'), fc.constantFrom('context', 'x', '', 'é', 'a/b'))
      .chain(([prefix, rest]) =>
        fc.constantFrom(`${prefix}/${rest}`, escaped(`${prefix}/`) + rest, `${prefix}\\/${rest}`),
      );
    const others = fc.constantFrom('com.example/x', 'progressToken', 'ambition', 'orbit.workspace', 'traceparent', 'é');
    const members = fc.array(fc.tuple(fc.oneof(ours, others), valueText), { maxLength: 8 });
    fc.assert(
      fc.property(members, (pairs) => {
        const text = request(`{${pairs.map(([key, value]) => `"${key}":${value}`).join(' , ')}}`);
        const kept = pairs.filter(([key]) => !isOurKey(JSON.parse(`"${key}"`) as string));
        const meta = `{${kept.map(([key, value]) => `"${key}":${value}`).join(' , ')}}`;
        expect(stripped(text)).toBe(request(meta));
      }),
    );
  });

  test('a message without ours stays as it is', () => {
    const text = request('{ "a" : 1 }');
    expect(stripped(text)).toBe(text);
  });

  test.each([
    ['twice', '"_meta":{},"_meta":{"ambit/context":1}', '"_meta":{},"_meta":{}'],
    ['twice, ours first', '"_meta":{"ambit/x":1,"a":1},"_meta":{"b":1}', '"_meta":{"a":1},"_meta":{"b":1}'],
    ['in another case', '"_Meta":{"ambit/context":1,"a":2}', '"_Meta":{"a":2}'],
    ['escaped', '"\\u005fmeta":{"\\u0061mbit/context":1}', '"\\u005fmeta":{}'],
  ])('_meta %s hides nothing from us, whoever reads it later', (_name, inside, expected) => {
    expect(stripped(result(inside))).toBe(result(expected));
  });

  test('answers inside a retried request are answers too', () => {
    const forged = '{"action":"accept","_meta":{"ambit/context":1},"content":{"_meta":{"ambit/context":"mine"}}}';
    const clean = '{"action":"accept","_meta":{},"content":{"_meta":{"ambit/context":"mine"}}}';
    const retry = (answer: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"inputResponses":{"a":${answer},"b":1,"c":${answer}}}}`;
    expect(stripped(retry(forged))).toBe(retry(clean));
  });

  test('questions inside a result are questions too', () => {
    const asked = (meta: string) =>
      result(
        `"resultType":"input_required","inputRequests":{"q":{"method":"m","params":{"_meta":${meta},"a":1}},"r":[]}`,
      );
    expect(stripped(asked('{"AMBIT/context":{},"k":1}'))).toBe(asked('{"k":1}'));
  });

  test('what a tool is given and what it answers is its own', () => {
    const text = request('{}').replace('"name":"t"', '"arguments":{"_meta":{"ambit/context":1}}');
    expect(stripped(text)).toBe(text);
    const answer = result('"structuredContent":{"_meta":{"ambit/context":1}}');
    expect(stripped(answer)).toBe(answer);
  });
});
