import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readNpmrc } from '../../../src/sandbox/packages/package-sources.ts';
import { refuseUnresolved } from '../../../src/sandbox/packages/packages.ts';
import { uvKind } from '../../../src/sandbox/packages/uv-kind.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-long-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const mebibyte = (piece: string) => piece.repeat(2 ** 20 / piece.length);

// In time by the square of the length, each of these takes minutes.
test('S1: a lock file of uv with a long text of a stranger in it is read in little time', () => {
  const sources = { hosts: [], files: {}, env: {}, secrets: [], proxyFor: () => undefined };
  const check = (text: string) => () => {
    writeFileSync(join(folder, 'requirements.txt'), text);
    uvKind.checkLock(folder, sources);
  };
  const hash = ` --hash=sha256:${'a'.repeat(64)}`;
  for (const middle of [mebibyte(' '), mebibyte('; '), hash.repeat(10_000)]) {
    expect(check(`a==1 ; x == '${middle}' @${hash}`)).toThrow(/not a wheel with a hash/);
  }
  expect(check(`a==1 ; x == '${mebibyte(' ')}'${hash.repeat(10_000)}`)).not.toThrow();
  expect(check(`a==1${hash}${hash.trim()}`)).toThrow(/not a wheel with a hash/);
  expect(check('a==1')).toThrow(/not a wheel with a hash/);
});

test('S1: a log of npm with a long name in it is read in little time, and the offender is still found', () => {
  mkdirSync(join(folder, 'logs'));
  const log = (text: string) => writeFileSync(join(folder, 'logs', 'one.log'), text);
  log(`1 silly fetch manifest ${mebibyte(' silly fetch manifest ')}\n`);
  expect(() => refuseUnresolved('', folder)).not.toThrow();
  log('1 http\n2 silly fetch manifest good@^1.0.0\n3 silly fetch manifest @s/loot@file:../x\n');
  expect(() => refuseUnresolved('', folder)).toThrow('"@s/loot", which is required as "file:../x"');
});

test('S1: a setting of npm with very many values is read in little time', () => {
  expect(readNpmrc('ca=first\nca[]=x\nca[]=y\n', {})).toEqual({ ca: ['first', 'x', 'y'] });
  expect(readNpmrc('ca[]=x\n'.repeat(60_000), {})['ca']).toHaveLength(60_000);
});
