import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findProgramOnPath, findTool } from '../../../src/sandbox/common/find-program.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-look-up-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('S1: a project does not choose the tools that Ambit runs by itself', () => {
  const [ofProject, ofMachine] = [join(folder, 'project/node_modules/.bin'), join(folder, 'bin')];
  for (const each of [ofProject, ofMachine]) {
    mkdirSync(each, { recursive: true });
    writeFileSync(join(each, 'bwrap'), '', { mode: 0o755 });
  }
  const searchPath = [ofProject, `${ofProject}/`, ofMachine].join(delimiter);
  expect(findProgramOnPath('bwrap', searchPath)).toBe(join(ofProject, 'bwrap'));
  expect(findTool('bwrap', searchPath)).toBe(join(ofMachine, 'bwrap'));
  expect(findTool('bwrap', ofProject)).toBeUndefined();
});
