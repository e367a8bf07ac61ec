import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { findProgramOnPath, findTool, withoutForeignFolders } from '../../../src/sandbox/common/find-program.ts';
import { serverFiles } from '../../../src/sandbox/common/server-files.ts';

let folder: string;
beforeEach(() => {
  folder = realpathSync.native(mkdtempSync(join(tmpdir(), 'ambit-look-up-')));
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

test('S1: nothing that a session may write is a tool that Ambit runs by itself', async () => {
  const [written, granted, ofMachine] = ['work/.venv/bin', 'granted/bin', 'bin'].map((each) => join(folder, each)) as [
    string,
    string,
    string,
  ];
  for (const each of [written, granted, ofMachine]) {
    mkdirSync(each, { recursive: true });
    writeFileSync(join(each, 'bwrap'), '', { mode: 0o755 });
  }
  symlinkSync(written, join(folder, 'outside'));
  symlinkSync(ofMachine, join(folder, 'work/inside'));
  const sandbox = { writable: ['granted'] };
  const servers = { notes: { command: 'node', sandbox } };
  const text = JSON.stringify({ version: 1, workspaces: { w: { path: 'work' } }, servers });
  const searchPath = [written, join(folder, 'outside'), join(folder, 'work/inside'), granted, ofMachine].join(
    delimiter,
  );
  expect(findTool('bwrap', searchPath)).toBe(join(written, 'bwrap'));
  await loadConfig({ text, file: join(folder, 'ambit.yaml') });
  expect(findTool('bwrap', searchPath)).toBe(join(ofMachine, 'bwrap'));
  // A server finds the programs of its own workspace, and of no other.
  expect(withoutForeignFolders(searchPath, () => false)).toBe(ofMachine);
  expect(withoutForeignFolders(searchPath, (each) => each === written).split(delimiter)).toEqual([
    ...[written, join(folder, 'outside'), ofMachine],
  ]);
  const wanted = { command: 'bwrap', args: [], searchPath, hidden: [] };
  expect(serverFiles(wanted).program).toBe(join(ofMachine, 'bwrap'));
  expect(serverFiles({ ...wanted, granted: [join(folder, 'work')] }).program).toBe(join(written, 'bwrap'));
});
