import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mintToken } from '../../src/identity/token.ts';
import { scrub, scrubberFor, secretValues, shortIds } from '../../src/logging/scrub.ts';
import { counts } from '../proof.ts';
import { foundByOthers } from './oracle.ts';
import { knownToOthers, random } from './secrets.ts';

const rounds = counts(5, 200);

test.each(Object.keys(knownToOthers))('L9: what others call a credential is gone: %s', async (name) => {
  const make = knownToOthers[name] as () => string;
  const secrets = Array.from({ length: rounds }, make);
  const texts = secrets.flatMap((secret) => [secret, `request failed: ${secret} (401)`, `a\t${secret}\nb`]);
  // In JSON the lines of a key are broken up: then others no longer see it, and still it has to go.
  const quoted = secrets.map((secret) => JSON.stringify({ said: secret }));
  // All at once: the scanner takes the longer the more often it is asked.
  expect((await foundByOthers(texts.join('\n'))).length).toBeGreaterThanOrEqual(texts.length);
  const clean = [...texts, ...quoted].map(scrub);
  expect(await foundByOthers(clean.join('\n'))).toEqual([]);
  const words = secrets.flatMap((secret) => secret.match(/[A-Za-z0-9]{16,}/g) ?? []);
  expect(words.length).toBeGreaterThanOrEqual(secrets.length);
  for (const word of words) expect(clean.join('\n')).not.toContain(word);
});

const id = 'd41d8cd98f00b204e9800998ecf8427e';
const { token } = mintToken('ambs', id);
const jwt = `eyJhbGciOiJFZERTQSJ9.${Buffer.from('{"sub":"ada"}').toString('base64url')}.${random('abcXYZ019_-', 86)}`;

test.each([
  [`session ${token} refused`, 'session [secret] refused'],
  [token.slice(0, -20), '[secret]'],
  [token.replace('ambs', 'ambk'), '[secret]'],
  [`${token}${token}`, '[secret][secret]'],
  [`AKIA${random('ABCDEFGH2345', 16)}`, '[secret]'],
  [`Authorization: Bearer ${token}`, 'Authorization: [secret]'],
  ['authorization: Digest username="ada", response="6629fae4"', 'authorization: [secret]'],
  [`{"authorization":"Bearer abcdefgh"}`, '{"authorization":[secret]}'],
  ['Cookie: sid=abc; other=def', 'Cookie: [secret]'],
  [`Txn-Token: ${jwt}`, 'Txn-Token: [secret]'],
  [`token ${jwt}.`, 'token [secret]'],
  ['Proxy-Authorization: Basic YWRhOnNlY3JldA==', 'Proxy-Authorization: [secret]'],
  ['curl -H "Bearer abcdefghijkl"', 'curl -H "Bearer [secret]"'],
  ['password=hunter22 user=ada', 'password=[secret] user=ada'],
  ['{"password": "two words", "user": "ada"}', '{"password": [secret], "user": "ada"}'],
  ['DB_PASSWORD: hunter22', 'DB_PASSWORD: [secret]'],
  ['client_secret=abc&grant=x', 'client_secret=[secret]&grant=x'],
  ['redis://:hunter22@cache:6379', 'redis://[secret]@cache:6379'],
  ['postgres://app:hunter22@db/main?x=1', 'postgres://[secret]@db/main?x=1'],
  [`key ${random('aB3', 44).replace(/^.../, 'aB3')}=`, 'key [secret]'],
])('L9: %s', (text, clean) => {
  expect(scrub(text)).toBe(clean);
});

test.each([
  'context injected: server=notes session=d41d8cd9 workspace=garden trust=direct',
  'ENOENT: no such file or directory, open /home/Ada/projects/Garden2/node_modules/some-package/dist/index.js',
  'tools/call notes__read_note_with_a_rather_long_name_that_is_plain',
  'https://mcp.example.com:8443/mcp?cursor=12',
  'max_tokens: 100, author: ada, keyboard = qwerty, monkey=see',
  id,
])('what is no credential stays: %s', (text) => {
  expect(scrub(text)).toBe(text);
});

test('L9: ids are shortened for people, digests are not shown, and neither hides in a path', () => {
  const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e';
  expect(shortIds(`run/${id}/x ${uuid} user-${id} ${'a'.repeat(64)} x_${id}_y`)).toBe(
    'run/d41d8cd9…/x 0f8fad5b… user-d41d8cd9… [digest] x_d41d8cd9…_y',
  );
});

test('L9: the value of a variable that is called a secret is gone, whatever it looks like', () => {
  const env = { API_KEY: 'plain words', NOTES_DIR: '/srv/notes', DB_PASS: 'x', GITHUB_TOKEN: 'correct horse' };
  const clean = scrubberFor(secretValues(env));
  expect(clean('plain words, /srv/notes, correct horse battery, x')).toBe('[secret], /srv/notes, [secret] battery, x');
});

test('L9: a key that is printed line by line', () => {
  const pem = (knownToOthers['private key'] as () => string)();
  const [, ...body] = pem.trim().split('\n').slice(0, -1);
  expect(body.length).toBeGreaterThan(1);
  for (const line of body.filter(({ length }) => length >= 48)) expect(scrub(line)).toBe('[secret]');
});

test('L9: a long text is not cut in the middle of a secret', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 200 }), (shift) => {
      const text = `${'word '.repeat(1600)}${'x'.repeat(shift)} ${token} ${'word '.repeat(500)}`;
      expect(scrub(text)).not.toMatch(/ambs_/);
    }),
    { numRuns: counts(60, 400) },
  );
  expect(scrub(`${'x'.repeat(9000)}${token}`)).toBe('…');
});

test('no text makes it hang, and what it leaves is left as it is', () => {
  const hostile = [
    'eyJ',
    '-----BEGIN PRIVATE KEY-----',
    'a:',
    'https://a:',
    'password=',
    'Bearer ',
    'aB1',
    '"',
    '\\"',
    'xox',
    '@',
  ];
  for (const piece of hostile)
    for (const other of ['', ...hostile]) scrub((piece + other).repeat(20_000 / (piece + other).length));
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
      const once = scrub(text);
      expect(scrub(once)).toBe(once);
    }),
    { numRuns: counts(300, 3000) },
  );
});
