import fc from 'fast-check';
import { expect, test } from 'vitest';
import { filterTools } from '../../../src/gateway/stages/enforce-tool-rules.ts';
import {
  readTemplate,
  readUri,
  replaceUri,
  splitPublicName,
  toCatalogEntries,
  toPublicName,
} from '../../../src/upstreams/catalog/list-entries.ts';
import { readUriTemplate } from '../../../src/upstreams/catalog/uri-template.ts';

const fitsTemplate = (uri: string, template: string) => readUriTemplate(template).compare(uri).fits;

test.each([
  ['file:///a', 'file:///a', true],
  ['file:///a', 'file:///b', false],
  ['file:///a/b', 'file:///{path}', true],
  ['file:///a/b', 'file:///{+path}', true],
  ['note://7/text', 'note://{id}/text', true],
  ['note://7/text/more', 'note://{id}/text', false],
  ['note://7', 'note://{id}/text', false],
  ['other://7/text', 'note://{id}/text', false],
  ['x://a-b', 'x://{a}-{b}', true],
  ['x://ab', 'x://{a}-{b}', false],
  ['x://aXX', 'x://{a}X', true],
  ['x:a', '', false],
])('%s and the template %s: %s', (uri, template, fits) => {
  expect(fitsTemplate(uri, template)).toBe(fits);
});

test('a filled template always fits', () => {
  const word = fc.stringMatching(/^[a-z]{1,8}$/);
  fc.assert(
    fc.property(fc.array(fc.tuple(word, word), { minLength: 1, maxLength: 4 }), word, (parts, end) => {
      const template = `${parts.map(([fixed, name]) => `${fixed}/{${name}}`).join('/')}/${end}`;
      const uri = `${parts.map(([fixed, name]) => `${fixed}/${name}`).join('/')}/${end}`;
      expect(fitsTemplate(uri, template)).toBe(true);
    }),
  );
});

test('the end of a template does not match text that is already used', () => {
  expect(fitsTemplate('ab', 'ab{x}b')).toBe(false);
});

test('addresses are read and replaced without touching the rest', () => {
  const text = '{"n":9007199254740993,"uri":"a:\\u0062"}';
  expect(readUri(text)).toBe('a:b');
  expect(replaceUri(text, 'c:d')).toBe('{"n":9007199254740993,"uri":"c:d"}');
  expect(readUri('{}')).toBeUndefined();
  expect(replaceUri('{}', 'c:d')).toBe('{}');
  expect(readTemplate('{"uriTemplate":"a:{b}"}')).toBe('a:{b}');
});

test('S4: a template and a URI of any length are compared in little time', () => {
  // In time by the square of the length, each takes minutes.
  for (const template of ['{'.repeat(2 ** 20), `{a}${'a'.repeat(2 ** 19)}b`]) {
    expect(fitsTemplate('a'.repeat(2 ** 20), template)).toBe(false);
    expect(fitsTemplate('a', template)).toBe(false);
  }
  expect(fitsTemplate(`file:///${'a'.repeat(4000)}/z`, 'file:///{path}/z')).toBe(true);
});

test('S7: a comparison takes no more steps than twice the length of the address', () => {
  const [uri, part] = [`z:${'a'.repeat(8190)}`, `${'a'.repeat(500)}b${'a'.repeat(500)}`];
  for (const template of [
    `z:{x}${part}`,
    `z:{x}${part}{y}`,
    `z:${'{x}a'.repeat(200)}b{y}`,
    `z:${'{x}'.repeat(300)}b{y}`,
  ]) {
    const { fits, steps } = readUriTemplate(template).compare(uri);
    expect(fits).toBe(false);
    expect(steps).toBeLessThanOrEqual(2 * uri.length);
  }
  expect(readUriTemplate(`z:{x}${part}{y}`).compare(`${uri}b${uri}`.slice(0, 8192)).fits).toBe(false);
  expect(readUriTemplate(`z:{x}${part}{y}`).compare(`z:${'a'.repeat(900)}b${'a'.repeat(900)}`).fits).toBe(true);
});

test('a comparison by parts finds what a search by a regular expression finds', () => {
  const word = fc.stringMatching(/^[ab]{0,4}$/);
  fc.assert(
    fc.property(fc.array(word, { minLength: 1, maxLength: 5 }), fc.stringMatching(/^[ab]{0,16}$/), (parts, uri) => {
      expect(fitsTemplate(uri, parts.join('{x}'))).toBe(new RegExp(`^${parts.join('.*')}$`).test(uri));
    }),
  );
});

const dense = `{${'"k":0,'.repeat(60_000)}"name":"t","uri":"a:b"}`;

test.each(['5', 'null', '"t"', '[{"name":"t"}]', dense])(
  'an entry that is no object, or too dense, is left out (%#)',
  (text) => {
    expect(toCatalogEntries('it', [text, '{"name":"t"}']).map(({ name }) => name)).toEqual(['t']);
    expect([readUri(text), readTemplate(text)]).toEqual([undefined, undefined]);
    expect(replaceUri(text, 'c:d')).toBe(text);
    expect(filterTools({ shown: () => true, replaced: undefined }, [text])).toEqual([]);
  },
);

const server = fc.stringMatching(/^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/);
const tool = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9_.-]{1,128}$/),
  fc.string({ minLength: 1, maxLength: 128, unit: 'binary' }),
);

test('hosts accept every public name, and each is always the same', () => {
  fc.assert(
    fc.property(server, tool, (where, name) => {
      const shown = toPublicName(where, name);
      expect(shown).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
      expect(shown.startsWith(`${where}__`)).toBe(true);
      expect(toPublicName(where, name)).toBe(shown);
    }),
  );
});

test('a name that fits can be read back, whatever underscores it has', () => {
  fc.assert(
    fc.property(server, tool, (where, name) => {
      fc.pre(where.length + name.length + 2 <= 64 && /^[\w-]+$/.test(name));
      expect(splitPublicName(toPublicName(where, name))).toEqual({ server: where, name });
    }),
  );
  expect(splitPublicName(toPublicName('a', '__x__y'))).toEqual({ server: 'a', name: '__x__y' });
});

test('64 characters are not shortened, 65 are, and long names that begin alike stay apart', () => {
  const fits = 'x'.repeat(61);
  expect(toPublicName('a', fits)).toBe(`a__${fits}`);
  const long = ['1', '2'].map((end) => toPublicName('a', `${'x'.repeat(80)}${end}`));
  expect(long.map((name) => name.length)).toEqual([64, 64]);
  expect(new Set(long).size).toBe(2);
  expect(toPublicName('a', 'x'.repeat(62))).toMatch(/^a__x{48}_[0-9a-f]{12}$/);
});

test('no real name is equal to a short name, and different real names have different short names', () => {
  const taken = toPublicName('a', 'x.y');
  expect(taken).toMatch(/^a__x_y_[0-9a-f]{12}$/);
  const again = toPublicName('a', taken.slice('a__'.length));
  expect(again).not.toBe(taken);
  expect(toPublicName('b', taken)).toBe(`b__${taken}`);
  const alike = ['x.y', 'x/y', 'x y', 'x:y', 'x\ud800y', 'x\ud801y', 'x\u{1f600}y', 'x_y', 'x\ny'];
  expect(new Set([...alike, 'x__y'].map((name) => toPublicName('a', name))).size).toBe(alike.length + 1);
  // An end of twelve digits alone does not make a short name.
  expect(toPublicName('a', 'commit_0123456789ab')).toBe('a__commit_0123456789ab');
});

test('a name without separator is no public name', () => {
  for (const text of ['', 'tool', '__tool', '_']) expect(splitPublicName(text)).toBeUndefined();
  expect(splitPublicName('a__')).toEqual({ server: 'a', name: '' });
});

test('an entry keeps everything but its name; one without a name is left out', () => {
  const texts = [
    '{"name":"t","n":9007199254740993,"x":"\\u00e9"}',
    '{"title":"nameless"}',
    '{"name":""}',
    '{"name":7}',
    '{"name":"t","description":"the same name again"}',
  ];
  expect(toCatalogEntries('a', texts)).toEqual([
    { server: 'a', name: 't', publicName: 'a__t', text: '{"name":"a__t","n":9007199254740993,"x":"\\u00e9"}' },
  ]);
});
