import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { parseGitConfig } from '../../../src/lib/git/configured-paths.ts';
import { findCommandFiles } from '../../../src/lib/git/git-commands.ts';
import { proof } from '../../proof.ts';

const written = [
  '# path = commented \\',
  '[submodule "a]b"] path = on/the/same/line ; a remark',
  '\tPATH = "with # and ; in quotes"  ',
  'path = goes \\',
  'on # a remark',
  'path = "tab\\tand \\"quotes\\" and \\\\"',
  '[core]hooksPath=tools/hooks',
  'bare',
  '[filter "x"]',
  '  clean = "one  two"   three  ',
  '[remote "origin"]\r',
  'url = ../shared\r',
  '',
].join('\n');

test('S4: settings are read as git reads them', () => {
  const options = { input: written, encoding: 'utf8' } as const;
  const said = execFileSync('git', ['config', '--file', '-', '--list', '-z'], options).split('\0').filter(Boolean);
  const ofGit = said.map((each) => {
    const [key = '', ...value] = each.split('\n');
    return { name: key.replace(/\..*\./s, '.'), value: value.join('\n') };
  });
  expect(parseGitConfig(written)).toEqual(ofGit);
});

test('S4: a file of line ends, brackets, quotes or escapes is parsed in linear time', () => {
  // A quadratic parser would not finish within the time of a test.
  for (const part of ['\n', '[', '"', '\\', '=', ' ', 'a=\\\n', '[a "']) {
    const found = parseGitConfig(part.repeat(Math.ceil((1 << 17) / part.length)));
    expect(found.length, JSON.stringify(part)).toBeLessThanOrEqual(1);
  }
});

test('S4: a command of separators, folders or shell expansions is parsed in linear time', () => {
  const pieces = ['$(', '${', '`', '"', "'", '$', 'cd ', 'cd a ', '/', '\\\\', '$x/a ', '`pwd', 'PATH=', 'a:'];
  for (const piece of pieces) {
    const found = findCommandFiles(piece.repeat(proof ? 1 << 18 : 1 << 13));
    expect(found?.length ?? 0, JSON.stringify(piece)).toBeLessThan(100);
  }
});
