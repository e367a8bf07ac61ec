import fc from 'fast-check';
import { expect, test } from 'vitest';
import { named, publicName, splitName } from '../../../src/upstreams/catalog/merge.ts';

const server = fc.stringMatching(/^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/);
const tool = fc.stringMatching(/^[A-Za-z0-9_.-]{1,128}$/);

test('no public name is longer than hosts allow, and each is always the same', () => {
  fc.assert(
    fc.property(server, tool, (where, name) => {
      const shown = publicName(where, name);
      expect(shown.length).toBeLessThanOrEqual(64);
      expect(shown.startsWith(`${where}__`)).toBe(true);
      expect(publicName(where, name)).toBe(shown);
    }),
  );
});

test('a name that fits can be read back, whatever underscores it has', () => {
  fc.assert(
    fc.property(server, tool, (where, name) => {
      fc.pre(where.length + name.length + 2 <= 64);
      expect(splitName(publicName(where, name))).toEqual({ server: where, name });
    }),
  );
  expect(splitName(publicName('a', '__x__y'))).toEqual({ server: 'a', name: '__x__y' });
});

test('64 characters are not shortened, 65 are, and long names that begin alike stay apart', () => {
  const fits = 'x'.repeat(61);
  expect(publicName('a', fits)).toBe(`a__${fits}`);
  const long = ['1', '2'].map((end) => publicName('a', `${'x'.repeat(80)}${end}`));
  expect(long.map((name) => name.length)).toEqual([64, 64]);
  expect(new Set(long).size).toBe(2);
  expect(publicName('a', 'x'.repeat(62))).toMatch(/^a__x{52}_[0-9a-f]{8}$/);
});

test('what is no public name is not read as one', () => {
  for (const text of ['', 'tool', '__tool', '_']) expect(splitName(text)).toBeUndefined();
  expect(splitName('a__')).toEqual({ server: 'a', name: '' });
});

test('an entry keeps everything but its name; one without a name is left out', () => {
  const texts = [
    '{"name":"t","n":9007199254740993,"x":"\\u00e9"}',
    '{"title":"nameless"}',
    '{"name":""}',
    '{"name":7}',
  ];
  expect(named('a', texts)).toEqual([
    { server: 'a', name: 't', publicName: 'a__t', text: '{"name":"a__t","n":9007199254740993,"x":"\\u00e9"}' },
  ]);
});
