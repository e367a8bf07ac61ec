import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mintToken } from '../../../src/identity/token.ts';
import { scrub, scrubberFor, secretValues, shortenIds } from '../../../src/observability/log/scrub.ts';
import { counts } from '../../proof.ts';
import { foundByOthers } from './oracle.ts';
import { knownToOthers } from './secrets.ts';

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
const jwt = `eyJhbGciOiJFZERTQSJ9.${Buffer.from('{"sub":"ada"}').toString('base64url')}.${'abcXYZ019_-'.repeat(8)}`;

test.each([
  ['our session token', `session ${token} refused`, 'session [secret] refused'],
  ['our session token, cut short', token.slice(0, -20), '[secret]'],
  ['our API key', token.replace('ambs', 'ambk'), '[secret]'],
  ['two of our tokens without a gap', `${token}${token}`, '[secret][secret]'],
  ['our session token in a header', `Authorization: Bearer ${token}`, 'Authorization: [secret]'],
  ['a JSON Web Token in a header', `Txn-Token: ${jwt}`, 'Txn-Token: [secret]'],
  ['a JSON Web Token', `token ${jwt}.`, 'token [secret]'],
])('L9: %s is gone', (_what, text, clean) => {
  expect(scrub(text)).toBe(clean);
});

test.each([
  ['authorization: Digest username="ada", response="6629fae4"', 'authorization: [secret]'],
  [`{"authorization":"Bearer abcdefgh"}`, '{"authorization":[secret]}'],
  ['Cookie: sid=abc; other=def', 'Cookie: [secret]'],
  ['Set-Cookie: sid=abc; HttpOnly', 'Set-Cookie: [secret]'],
  ['X-Api-Key: two words', 'X-Api-Key: [secret]'],
  ['X-Auth-Token: two words', 'X-Auth-Token: [secret]'],
  ['x-amz-security-token: two words', 'x-amz-security-token: [secret]'],
  ['Txn-Token: two words', 'Txn-Token: [secret]'],
  ['Mcp-Session-Id: two words', 'Mcp-Session-Id: [secret]'],
  ['Proxy-Authorization: Basic YWRhOnNlY3JldA==', 'Proxy-Authorization: [secret]'],
  ['curl -H "Bearer abcdefghijkl"', 'curl -H "Bearer [secret]"'],
  ['sent basic abcdefghijkl there', 'sent basic [secret] there'],
  ['sent negotiate abcdefghijkl there', 'sent negotiate [secret] there'],
  ['sent digest abcdefghijkl there', 'sent digest [secret] there'],
  ['password=hunter22 user=ada', 'password=[secret] user=ada'],
  ['{"password": "two words", "user": "ada"}', '{"password": [secret], "user": "ada"}'],
  ['DB_PASSWORD: hunter22', 'DB_PASSWORD: [secret]'],
  ['passwd=hunter22', 'passwd=[secret]'],
  ['passphrase=hunter22', 'passphrase=[secret]'],
  ['pwd=hunter22', 'pwd=[secret]'],
  ['token=hunter22', 'token=[secret]'],
  ['api-key=hunter22', 'api-key=[secret]'],
  ['access key=hunter22', 'access key=[secret]'],
  ['AccountKey=hunter22', 'AccountKey=[secret]'],
  ['private_key=hunter22', 'private_key=[secret]'],
  ['signing-key=hunter22', 'signing-key=[secret]'],
  ['credentials=hunter22', 'credentials=[secret]'],
  ['credential=hunter22', 'credential=[secret]'],
  ['client_secret=abc&grant=x', 'client_secret=[secret]&grant=x'],
  ['AWS_SECRET_ACCESS_KEY: abc', 'AWS_SECRET_ACCESS_KEY: [secret]'],
  ['secret_id=abc, secret-value=abc', 'secret_id=[secret], secret-value=[secret]'],
  ['token_text=abc, secret_key=abc', 'token_text=[secret], secret_key=[secret]'],
  ['secret_base64=abc', 'secret_base64=[secret]'],
  ["secret => 'abc', token := abc", 'secret => [secret], token := [secret]'],
  ['redis://:hunter22@cache:6379', 'redis://[secret]@cache:6379'],
  ['postgres://app:hunter22@db/main?x=1', 'postgres://[secret]@db/main?x=1'],
  [`key ${'aB3'.repeat(15)}=`, 'key [secret]'],
])('L9: %s', (text, clean) => {
  expect(scrub(text)).toBe(clean);
});

/**
 * One example for each shape by which a maker marks its keys, with the least that the shape needs. What follows the mark
 * is so plain that only that shape catches it, not the general ones. Each mark is written in two parts, so that those
 * who scan repositories for keys do not take this file for one that holds some.
 */
const plain = (length: number) => 'abcdefghij'.repeat(13).slice(0, length);
const upper = (length: number) => plain(length).toUpperCase();

test.each([
  ['AWS, access key', `AK${'IA'}${upper(12)}`],
  ['AWS, temporary access key', `AS${'IA'}${upper(12)}`],
  ['AWS, bearer', `AB${'IA'}${upper(12)}`],
  ['AWS, context', `AC${'CA'}${upper(12)}`],
  ['AWS, group', `AG${'PA'}${upper(12)}`],
  ['AWS, user', `AI${'DA'}${upper(12)}`],
  ['AWS, role', `AR${'OA'}${upper(12)}`],
  ['AWS, policy', `AN${'PA'}${upper(12)}`],
  ['AWS, policy version', `AN${'VA'}${upper(12)}`],
  ['AWS, instance profile', `AI${'PA'}${upper(12)}`],
  ['AWS, older', `A3${'TX'}${upper(12)}`],
  ['GitHub, personal', `gh${'p_'}${plain(20)}`],
  ['GitHub, OAuth', `gh${'o_'}${plain(20)}`],
  ['GitHub, user of an app', `gh${'u_'}${plain(20)}`],
  ['GitHub, server of an app', `gh${'s_'}${plain(20)}`],
  ['GitHub, refresh', `gh${'r_'}${plain(20)}`],
  ['GitHub, fine-grained', `github${'_pat_'}${plain(20)}`],
  ['GitLab', `gl${'pat-'}${plain(16)}`],
  ['Grafana', `gl${'sa_'}${plain(20)}`],
  ['Slack, bot', `xo${'xb-'}${plain(10)}`],
  ['Slack, user', `xo${'xp-'}${plain(10)}`],
  ['Slack, workspace', `xo${'xa-'}${plain(10)}`],
  ['Slack, refresh', `xo${'xr-'}${plain(10)}`],
  ['Slack, session', `xo${'xs-'}${plain(10)}`],
  ['Slack, app', `xa${'pp-'}${plain(10)}`],
  ['Slack, rotated', `xo${'xe.xoxb-'}${plain(10)}`],
  ['OpenAI and others', `s${'k-'}${plain(16)}`],
  ['Stripe, secret', `s${'k_'}${plain(16)}`],
  ['Stripe, public', `p${'k_'}${plain(16)}`],
  ['Stripe, restricted', `r${'k_'}${plain(16)}`],
  ['Stripe, hook', `wh${'sec_'}${plain(16)}`],
  ['Groq', `gs${'k_'}${plain(16)}`],
  ['xAI', `xa${'i-'}${plain(16)}`],
  ['Replicate', `r${'8_'}${plain(16)}`],
  ['Hugging Face', `h${'f_'}${plain(16)}`],
  ['Notion', `nt${'n_'}${plain(16)}`],
  ['Linear', `lin${'_api_'}${plain(16)}`],
  ['Linear, OAuth', `lin${'_oauth_'}${plain(16)}`],
  ['NVIDIA', `nv${'api-'}${plain(16)}`],
  ['Google, API key', `AI${'za'}${plain(30)}`],
  ['Google, access', `ya${'29.'}${plain(20)}`],
  ['Google, client', `GOC${'SPX-'}${plain(20)}`],
  ['npm', `np${'m_'}${plain(24)}`],
  ['PyPI', `py${'pi-'}${plain(24)}`],
  ['DigitalOcean', `dop${'_v1_'}${plain(24)}`],
  ['DigitalOcean, OAuth', `doo${'_v1_'}${plain(24)}`],
  ['Docker', `dckr${'_pat_'}${plain(24)}`],
  ['Figma', `fi${'gd_'}${plain(24)}`],
  ['Shopify, access', `shp${'at_'}${plain(24)}`],
  ['Shopify, custom app', `shp${'ca_'}${plain(24)}`],
  ['Shopify, private app', `shp${'pa_'}${plain(24)}`],
  ['Shopify, shared', `shp${'ss_'}${plain(24)}`],
  ['Notion, older', `sec${'ret_'}${plain(24)}`],
  ['1Password', `op${'s_'}${plain(24)}`],
  ['Doppler', `dp${'.st.'}${plain(24)}`],
  ['SendGrid', `S${'G.'}${plain(10)}.${plain(10)}`],
  ['Vault, service', `hv${'s.'}${plain(20)}`],
  ['Vault, batch', `hv${'b.'}${plain(20)}`],
  ['Vault, recovery', `hv${'r.'}${plain(20)}`],
  ['Databricks', `da${'pi'}${'0123456789abcdef'.repeat(2)}`],
  ['age', `AGE-SECRET-${'KEY-1'}${upper(20)}`],
  ['age, mixed case', `Age-Secret-${'Key-1'}${plain(20)}`],
])('L9: a key is gone by its mark alone: %s', (_maker, key) => {
  expect(scrub(`sent ${key} there`)).toBe('sent [secret] there');
  // Without its mark it is a word like any other.
  expect(scrub(`sent ${key.slice(-10)} there`)).toBe(`sent ${key.slice(-10)} there`);
});

test('L9: the address of a Slack hook keeps its host and loses the rest', () => {
  const hook = `https://hooks.slack${'.com/'}services/${plain(10)}`;
  expect(scrub(`posted to ${hook} there`)).toBe('posted to https://hooks.slack.com/[secret] there');
});

test('L9: a private key is gone by its first line, with its end or cut off before it', () => {
  for (const kind of ['', 'RSA ', 'EC ', 'OPENSSH ', 'ENCRYPTED ']) {
    const [head, tail] = [`-----BEGIN ${kind}PRIVATE ${'KEY-----'}`, `-----END ${kind}PRIVATE ${'KEY-----'}`];
    expect(scrub(`a ${head}\n${plain(20)}\n${tail} b`)).toBe('a [secret] b');
    expect(scrub(`a ${head}\n${plain(20)}\nplain words`)).toBe('a [secret]');
  }
  const [head, tail] = [`-----BEGIN PGP PRIVATE KEY ${'BLOCK-----'}`, `-----END PGP PRIVATE KEY ${'BLOCK-----'}`];
  expect(scrub(`a ${head}\n${plain(20)}\n${tail} b`)).toBe('a [secret] b');
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
  expect(shortenIds(`run/${id}/x ${uuid} user-${id} ${'a'.repeat(64)} x_${id}_y`)).toBe(
    'run/d41d8cd9…/x 0f8fad5b… user-d41d8cd9… [digest] x_d41d8cd9…_y',
  );
});

test('L9: the value of a variable that is called a secret is gone, whatever it looks like', () => {
  const env = { API_KEY: 'plain words', NOTES_DIR: '/srv/notes', DB_PASS: 'x', GITHUB_TOKEN: 'correct horse' };
  const clean = scrubberFor(secretValues(env));
  expect(clean('plain words, /srv/notes, correct horse battery, x')).toBe('[secret], /srv/notes, [secret] battery, x');
});

test('L9: each word that calls a variable or header secret is known', () => {
  const values = Object.fromEntries(
    [
      'DB_PASS',
      'ADMIN_PWD',
      'CLIENT_SECRET',
      'GITHUB_TOKEN',
      'x-api-key',
      'Authorization',
      'CREDENTIAL',
      'Cookie',
      'DSN',
    ].map((name) => [name, `value of ${name}`]),
  );
  expect(secretValues(values)).toEqual(Object.values(values));
  expect(secretValues({ NOTES_DIR: '/srv/notes', LANG: 'en' })).toEqual([]);
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
