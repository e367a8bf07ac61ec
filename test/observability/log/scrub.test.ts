import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mintToken } from '../../../src/identity/token.ts';
import {
  createScrubber,
  listSecretArguments,
  listSecretValues,
  scrubSecrets,
  shortenIds,
} from '../../../src/observability/log/scrub.ts';
import { counts } from '../../proof.ts';
import { findWithSecretlint } from './find-with-secretlint.ts';
import { knownCredentials } from './secrets.ts';

const rounds = counts(5, 200);

test.each(Object.keys(knownCredentials))('L9: credentials known to other scanners are removed: %s', async (name) => {
  const make = knownCredentials[name] as () => string;
  const secrets = Array.from({ length: rounds }, make);
  const texts = secrets.flatMap((secret) => [secret, `request failed: ${secret} (401)`, `a\t${secret}\nb`]);
  // In JSON the lines of a key are escaped: secretlint no longer finds it, but it must still be removed.
  const quoted = secrets.map((secret) => JSON.stringify({ said: secret }));
  // All in one call, since the scanner gets slower with each call.
  expect((await findWithSecretlint(texts.join('\n'))).length).toBeGreaterThanOrEqual(texts.length);
  const clean = [...texts, ...quoted].map(scrubSecrets);
  expect(await findWithSecretlint(clean.join('\n'))).toEqual([]);
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
])('L9: %s is removed', (_what, text, clean) => {
  expect(scrubSecrets(text)).toBe(clean);
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
  expect(scrubSecrets(text)).toBe(clean);
});

/**
 * One example for each prefix of issuers, with the shortest key it needs. The rest is so plain that only the prefix
 * matches. Each prefix is written in two parts, so that scanners of repositories do not report this file.
 */
const lowerLetters = (length: number) => 'abcdefghij'.repeat(13).slice(0, length);
const upperLetters = (length: number) => lowerLetters(length).toUpperCase();

test.each([
  ['AWS, access key', `AK${'IA'}${upperLetters(12)}`],
  ['AWS, temporary access key', `AS${'IA'}${upperLetters(12)}`],
  ['AWS, bearer', `AB${'IA'}${upperLetters(12)}`],
  ['AWS, context', `AC${'CA'}${upperLetters(12)}`],
  ['AWS, group', `AG${'PA'}${upperLetters(12)}`],
  ['AWS, user', `AI${'DA'}${upperLetters(12)}`],
  ['AWS, role', `AR${'OA'}${upperLetters(12)}`],
  ['AWS, policy', `AN${'PA'}${upperLetters(12)}`],
  ['AWS, policy version', `AN${'VA'}${upperLetters(12)}`],
  ['AWS, instance profile', `AI${'PA'}${upperLetters(12)}`],
  ['AWS, older', `A3${'TX'}${upperLetters(12)}`],
  ['GitHub, personal', `gh${'p_'}${lowerLetters(20)}`],
  ['GitHub, OAuth', `gh${'o_'}${lowerLetters(20)}`],
  ['GitHub, user of an app', `gh${'u_'}${lowerLetters(20)}`],
  ['GitHub, server of an app', `gh${'s_'}${lowerLetters(20)}`],
  ['GitHub, refresh', `gh${'r_'}${lowerLetters(20)}`],
  ['GitHub, fine-grained', `github${'_pat_'}${lowerLetters(20)}`],
  ['GitLab', `gl${'pat-'}${lowerLetters(16)}`],
  ['Grafana', `gl${'sa_'}${lowerLetters(20)}`],
  ['Slack, bot', `xo${'xb-'}${lowerLetters(10)}`],
  ['Slack, user', `xo${'xp-'}${lowerLetters(10)}`],
  ['Slack, workspace', `xo${'xa-'}${lowerLetters(10)}`],
  ['Slack, refresh', `xo${'xr-'}${lowerLetters(10)}`],
  ['Slack, session', `xo${'xs-'}${lowerLetters(10)}`],
  ['Slack, app', `xa${'pp-'}${lowerLetters(10)}`],
  ['Slack, rotated', `xo${'xe.xoxb-'}${lowerLetters(10)}`],
  ['OpenAI and others', `s${'k-'}${lowerLetters(16)}`],
  ['Stripe, secret', `s${'k_'}${lowerLetters(16)}`],
  ['Stripe, public', `p${'k_'}${lowerLetters(16)}`],
  ['Stripe, restricted', `r${'k_'}${lowerLetters(16)}`],
  ['Stripe, hook', `wh${'sec_'}${lowerLetters(16)}`],
  ['Groq', `gs${'k_'}${lowerLetters(16)}`],
  ['xAI', `xa${'i-'}${lowerLetters(16)}`],
  ['Replicate', `r${'8_'}${lowerLetters(16)}`],
  ['Hugging Face', `h${'f_'}${lowerLetters(16)}`],
  ['Notion', `nt${'n_'}${lowerLetters(16)}`],
  ['Linear', `lin${'_api_'}${lowerLetters(16)}`],
  ['Linear, OAuth', `lin${'_oauth_'}${lowerLetters(16)}`],
  ['NVIDIA', `nv${'api-'}${lowerLetters(16)}`],
  ['Google, API key', `AI${'za'}${lowerLetters(30)}`],
  ['Google, access', `ya${'29.'}${lowerLetters(20)}`],
  ['Google, client', `GOC${'SPX-'}${lowerLetters(20)}`],
  ['npm', `np${'m_'}${lowerLetters(24)}`],
  ['PyPI', `py${'pi-'}${lowerLetters(24)}`],
  ['DigitalOcean', `dop${'_v1_'}${lowerLetters(24)}`],
  ['DigitalOcean, OAuth', `doo${'_v1_'}${lowerLetters(24)}`],
  ['Docker', `dckr${'_pat_'}${lowerLetters(24)}`],
  ['Figma', `fi${'gd_'}${lowerLetters(24)}`],
  ['Shopify, access', `shp${'at_'}${lowerLetters(24)}`],
  ['Shopify, custom app', `shp${'ca_'}${lowerLetters(24)}`],
  ['Shopify, private app', `shp${'pa_'}${lowerLetters(24)}`],
  ['Shopify, shared', `shp${'ss_'}${lowerLetters(24)}`],
  ['Notion, older', `sec${'ret_'}${lowerLetters(24)}`],
  ['1Password', `op${'s_'}${lowerLetters(24)}`],
  ['Doppler', `dp${'.st.'}${lowerLetters(24)}`],
  ['SendGrid', `S${'G.'}${lowerLetters(10)}.${lowerLetters(10)}`],
  ['Vault, service', `hv${'s.'}${lowerLetters(20)}`],
  ['Vault, batch', `hv${'b.'}${lowerLetters(20)}`],
  ['Vault, recovery', `hv${'r.'}${lowerLetters(20)}`],
  ['Databricks', `da${'pi'}${'0123456789abcdef'.repeat(2)}`],
  ['age', `AGE-SECRET-${'KEY-1'}${upperLetters(20)}`],
  ['age, mixed case', `Age-Secret-${'Key-1'}${lowerLetters(20)}`],
])('L9: a key is removed by its prefix alone: %s', (_maker, key) => {
  expect(scrubSecrets(`sent ${key} there`)).toBe('sent [secret] there');
  expect(scrubSecrets(`sent ${key.slice(-10)} there`)).toBe(`sent ${key.slice(-10)} there`);
});

test('L9: the URL of a Slack hook keeps only its host', () => {
  const hook = `https://hooks.slack${'.com/'}services/${lowerLetters(10)}`;
  expect(scrubSecrets(`posted to ${hook} there`)).toBe('posted to https://hooks.slack.com/[secret] there');
});

test('L9: a private key is removed by its first line, whole or cut off', () => {
  for (const kind of ['', 'RSA ', 'EC ', 'OPENSSH ', 'ENCRYPTED ']) {
    const [head, tail] = [`-----BEGIN ${kind}PRIVATE ${'KEY-----'}`, `-----END ${kind}PRIVATE ${'KEY-----'}`];
    expect(scrubSecrets(`a ${head}\n${lowerLetters(20)}\n${tail} b`)).toBe('a [secret] b');
    expect(scrubSecrets(`a ${head}\n${lowerLetters(20)}\nplain words`)).toBe('a [secret]');
  }
  const [head, tail] = [`-----BEGIN PGP PRIVATE KEY ${'BLOCK-----'}`, `-----END PGP PRIVATE KEY ${'BLOCK-----'}`];
  expect(scrubSecrets(`a ${head}\n${lowerLetters(20)}\n${tail} b`)).toBe('a [secret] b');
});

test.each([
  'context injected: server=notes session=d41d8cd9 workspace=garden trust=direct',
  'ENOENT: no such file or directory, open /home/Ada/projects/Garden2/node_modules/some-package/dist/index.js',
  'tools/call notes__read_note_with_a_rather_long_name_that_is_plain',
  'https://mcp.example.com:8443/mcp?cursor=12',
  'max_tokens: 100, author: ada, keyboard = qwerty, monkey=see',
  id,
])('text without a credential stays: %s', (text) => {
  expect(scrubSecrets(text)).toBe(text);
});

test('L9: ids are shortened and digests removed, also inside a path', () => {
  const uuid = '0f8fad5b-d9cb-469f-a165-70867728950e';
  expect(shortenIds(`run/${id}/x ${uuid} user-${id} ${'a'.repeat(64)} x_${id}_y`)).toBe(
    'run/d41d8cd9…/x 0f8fad5b… user-d41d8cd9… [digest] x_d41d8cd9…_y',
  );
});

test('L9: the value of a variable with a secret name is removed, whatever it looks like', () => {
  const env = { API_KEY: 'plain words', NOTES_DIR: '/srv/notes', DB_PASS: 'x', GITHUB_TOKEN: 'correct horse' };
  const clean = createScrubber(listSecretValues(env));
  expect(clean('plain words, /srv/notes, correct horse battery, x')).toBe('[secret], /srv/notes, [secret] battery, x');
});

test('L9: each word in names of secret variables and headers is known', () => {
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
  expect(listSecretValues(values)).toEqual(Object.values(values));
  expect(listSecretValues({ NOTES_DIR: '/srv/notes', LANG: 'en' })).toEqual([]);
});

test('L9: a key printed line by line is removed', () => {
  const pem = (knownCredentials['private key'] as () => string)();
  const [, ...body] = pem.trim().split('\n').slice(0, -1);
  expect(body.length).toBeGreaterThan(1);
  for (const line of body.filter(({ length }) => length >= 48)) expect(scrubSecrets(line)).toBe('[secret]');
});

test('L9: a long text is not cut inside a secret', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 200 }), (shift) => {
      const text = `${'word '.repeat(1600)}${'x'.repeat(shift)} ${token} ${'word '.repeat(500)}`;
      expect(scrubSecrets(text)).not.toMatch(/ambs_/);
    }),
    { numRuns: counts(60, 400) },
  );
  expect(scrubSecrets(`${'x'.repeat(9000)}${token}`)).toBe('…');
});

test('no text makes it hang, and scrubbing twice changes nothing', () => {
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
    for (const other of ['', ...hostile]) scrubSecrets((piece + other).repeat(20_000 / (piece + other).length));
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
      const once = scrubSecrets(text);
      expect(scrubSecrets(once)).toBe(once);
    }),
    { numRuns: counts(300, 3000) },
  );
});

test.each([
  ['base64', (secret: string) => Buffer.from(secret).toString('base64')],
  ['base64 behind a name', (secret: string) => Buffer.from(`ada:${secret}`).toString('base64')],
  ['base64 between others', (secret: string) => Buffer.from(`{"p":"${secret}"}`).toString('base64url')],
  ['hex', (secret: string) => Buffer.from(secret).toString('hex')],
  ['a URL', encodeURIComponent],
  ['JSON', (secret: string) => JSON.stringify(secret).slice(1, -1)],
])('L9: a known secret is removed as it is written in %s', (_, encode) => {
  const secret = 'p"ss / wörd?';
  expect(createScrubber([secret])(`said <${encode(secret)}>`)).toBe('said <[secret]>');
});

test('L9: secrets inside of variables and arguments are known too', () => {
  const env = {
    DATABASE_URL: 'postgres://ada:p%40ssword@db.test/x?sslkey=in-the-query',
    SETTINGS: '{"a":[{"apiKey":"in-the-json","url":"redis://:in-the-url@h"}],"region":"eu-central"}',
    REGION: 'eu-central',
  };
  const found = listSecretValues(env).filter((each) => each !== '');
  expect(found).toEqual(['p%40ssword', 'p@ssword', 'in-the-query', 'in-the-json', 'in-the-url', 'in-the-url']);
  const args = [
    '--header',
    'X-Custom: abc123',
    'X-Api-Key: def456',
    '--db=mysql://u:ghi789@h',
    'https://h.test/a',
    'b:c',
  ];
  const named = new Set(listSecretArguments(args).filter((each) => each !== ''));
  expect(named).toEqual(new Set(['abc123', 'def456', 'ghi789']));
});
