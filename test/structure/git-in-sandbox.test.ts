import { expect, test } from 'vitest';
import { readSourceFiles } from './source-files.ts';

const files = readSourceFiles('src');

test('S5: one file names git as a program, and nothing around it starts a process by itself', () => {
  const naming = files.filter(({ text }) => /(?:find|spawn|execFile|exec|fork)\w*\(\s*['"`]git\b/.test(text));
  expect(naming.map(({ path }) => path)).toEqual(['src/workspaces/session-folders/git/git.ts']);
  const starting = files.filter(({ path, text }) => path.startsWith('src/workspaces/') && /child_process/.test(text));
  expect(starting.map(({ path }) => path)).toEqual([]);
});
