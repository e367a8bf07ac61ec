import { execFile } from 'node:child_process';
import { createPublicKey, sign, verify } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openSigningKeys, type SigningKeys, writeInlineKeys } from '../../../src/context/for-tools/signing-keys.ts';

let folder = '';
let now = 0;
const open: SigningKeys[] = [];
const day = 24 * 60 * 60_000;
const minute = 60_000;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-keys-'));
  now = Date.UTC(2026, 0, 1);
});

afterEach(() => {
  for (const keys of open.splice(0)) keys.close();
  rmSync(folder, { recursive: true, force: true });
});

async function opened(place = folder): Promise<SigningKeys> {
  const keys = await openSigningKeys(place, () => now);
  open.push(keys);
  return keys;
}

const signing = () => join(folder, 'signing.json');
const kids = (jwks: string) => (JSON.parse(jwks) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);
const announced = () => kids(readFileSync(join(folder, 'public', 'jwks.json'), 'utf8'));

/** By the announced half alone, as everybody else has to. */
function verifies(jwks: string, { kid, key }: ReturnType<SigningKeys['current']>): boolean {
  const jwk = (JSON.parse(jwks) as { keys: { kid: string }[] }).keys.find((each) => each.kid === kid);
  const said = Buffer.from('words');
  return jwk !== undefined && verify(null, said, createPublicKey({ key: jwk, format: 'jwk' }), sign(null, said, key));
}

describe('the file', () => {
  test('is for its owner alone, and what is announced holds no private half', async () => {
    const keys = await opened();
    expect(statSync(signing()).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o077).toBe(0);
    const { d } = (JSON.parse(readFileSync(signing(), 'utf8')) as { keys: [{ d: string }] }).keys[0];
    for (const shown of [keys.jwks(), writeInlineKeys(keys), readFileSync(keys.jwksFile, 'utf8')]) {
      expect(shown).not.toContain(d);
      expect(shown).not.toMatch(/"d"|pseudonym/);
    }
    expect(verifies(keys.jwks(), keys.current())).toBe(true);
    expect(JSON.parse(writeInlineKeys(keys))).toEqual({ ...JSON.parse(keys.jwks()), source: keys.jwksFile });
  });

  test('is the same after a restart', async () => {
    const before = await opened();
    const after = await opened();
    expect([after.jwks(), after.name, after.pseudonymSecret]).toEqual([
      before.jwks(),
      before.name,
      before.pseudonymSecret,
    ]);
  });

  test.each([0o640, 0o604, 0o660, 0o620, 0o601])('with mode %i is not used, and not replaced', async (mode) => {
    await opened();
    const text = readFileSync(signing(), 'utf8');
    chmodSync(signing(), mode);
    await expect(opened()).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    expect(readFileSync(signing(), 'utf8')).toBe(text);
  });

  test('that is a link to another is not used', async () => {
    await opened();
    const elsewhere = join(folder, 'elsewhere');
    mkdirSync(elsewhere);
    symlinkSync(signing(), join(elsewhere, 'signing.json'));
    await expect(opened(elsewhere)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  });

  test.each([
    ['nothing', () => ''],
    ['half of it', (text: string) => text.slice(0, text.length / 2)],
    ['no keys', (text: string) => JSON.stringify({ ...JSON.parse(text), keys: [] })],
    ['another version', (text: string) => JSON.stringify({ ...JSON.parse(text), version: 2 })],
    ['no secret', (text: string) => JSON.stringify({ ...JSON.parse(text), pseudonymSecret: '' })],
    ['a list', () => '[]'],
    ['null', () => 'null'],
    ['a key that is none', (text: string) => text.replace(/"d":"[^"]+"/, '"d":"AAAA"')],
    ['a key with no name', (text: string) => text.replace(/"kid":"[^"]+"/, '"kid":7')],
    ['another public half', (text: string) => text.replace(/"x":"..../, '"x":"AAAA')],
    ['no time', (text: string) => text.replace(/"signsFrom":\d+/, '"signsFrom":"soon"')],
  ])('that holds %s is refused in words, and kept for whoever looks into it', async (_name, changed) => {
    await opened();
    const text = changed(readFileSync(signing(), 'utf8'));
    writeFileSync(signing(), text);
    const refused = opened();
    await expect(refused).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    await expect(refused).rejects.toThrow(/signing keys/);
    expect(readFileSync(signing(), 'utf8')).toBe(text);
  });
});

describe('renewal', () => {
  test('announces a key before it signs, keeps the last one for a while, and never moves a pseudonym', async () => {
    const keys = await opened();
    const { name } = keys;
    const secret = Buffer.from(keys.pseudonymSecret);
    const first = keys.current();
    now += 30 * day - 16 * minute;
    await keys.renewIfDue();
    expect(kids(keys.jwks())).toEqual([first.kid]);
    now += minute;
    await keys.renewIfDue();
    const [, second] = kids(keys.jwks());
    expect(second).toBeDefined();
    expect(announced()).toEqual([first.kid, second]);
    expect(kids(writeInlineKeys(keys))).toEqual([first.kid, second]);
    for (const step of [0, 14 * minute + 59_999]) {
      now += step;
      expect(keys.current().kid).toBe(first.kid);
    }
    now += 1;
    expect(keys.current().kid).toBe(second);
    expect(verifies(keys.jwks(), keys.current())).toBe(true);
    now += 59 * minute;
    await keys.renewIfDue();
    expect(verifies(keys.jwks(), first)).toBe(true);
    expect(announced()).toContain(first.kid);
    now += 2 * minute;
    await keys.renewIfDue();
    expect(announced()).toEqual([second]);
    expect(readFileSync(signing(), 'utf8')).not.toContain(first.kid);
    expect([keys.name, keys.pseudonymSecret]).toEqual([name, secret]);
  });

  test('after a long time away the old key signs on until the new one is known', async () => {
    const { kid } = (await opened()).current();
    now += 90 * day;
    const later = await opened();
    expect(later.current().kid).toBe(kid);
    expect(announced()).toHaveLength(2);
    now += 15 * minute;
    expect(later.current().kid).not.toBe(kid);
  });

  test('is made by one of several processes and read by the others', async () => {
    const all = [await opened(), await opened(), await opened()];
    now += 30 * day;
    await Promise.all(all.map((keys) => keys.renewIfDue()));
    for (const keys of all) await keys.renewIfDue();
    expect(new Set(all.map((keys) => keys.jwks())).size).toBe(1);
    expect(announced()).toHaveLength(2);
    now += 15 * minute;
    expect(new Set(all.map((keys) => keys.current().kid)).size).toBe(1);
  });

  test('a clock that goes back does not leave it without a key', async () => {
    const keys = await opened();
    now -= 400 * day;
    await keys.renewIfDue();
    expect(verifies(keys.jwks(), keys.current())).toBe(true);
  });

  test('does not follow a file that became unusable, and goes on with what it has', async () => {
    const keys = await opened();
    const { kid } = keys.current();
    writeFileSync(signing(), 'garbage');
    await expect(keys.renewIfDue()).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    expect(keys.current().kid).toBe(kid);
  });
});

describe('a crash between the two files', () => {
  test.each(['', '{"keys":[]}', undefined])('leaves %j to be read, and the next start heals it', async (left) => {
    const before = await opened();
    if (left === undefined) rmSync(before.jwksFile);
    else writeFileSync(before.jwksFile, left);
    const after = await opened();
    expect(readFileSync(after.jwksFile, 'utf8')).toBe(before.jwks());
  });

  test('never leaves a key that signs and is not announced', async () => {
    const keys = await opened();
    const text = readFileSync(signing(), 'utf8');
    now += 30 * day;
    await keys.renewIfDue();
    // As if it had ended right after the first of the two: the key is announced, and lost.
    writeFileSync(signing(), text);
    const after = await opened();
    expect(announced()).toEqual(kids(after.jwks()));
    now += 16 * minute;
    expect(announced()).toContain(after.current().kid);
  });
});

test('processes that find an empty folder at the same time agree on one key', async () => {
  const module = new URL('../../../build/context/for-tools/signing-keys.js', import.meta.url).href;
  const place = join(folder, 'fresh');
  const script = `const { openSigningKeys } = await import(${JSON.stringify(module)});
    const keys = await openSigningKeys(${JSON.stringify(place)});
    console.log(keys.current().kid, keys.name, keys.pseudonymSecret.toString('hex')); keys.close();`;
  const said = await Promise.all(
    Array.from({ length: 4 }, () =>
      promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]).then(({ stdout }) => stdout),
    ),
  );
  expect(new Set(said).size).toBe(1);
  expect(readdirSync(place).sort()).toEqual(['public', 'signing.json']);
  expect(readdirSync(join(place, 'public'))).toEqual(['jwks.json']);
});
