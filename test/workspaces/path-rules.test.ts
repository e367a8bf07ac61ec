import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { WorkspaceBackend } from '../../src/workspaces/backends/backend.ts';
import { openLocal } from '../../src/workspaces/backends/local/open-local.ts';
import { createPathRules } from '../../src/workspaces/path-rules.ts';
import { proof } from '../proof.ts';
import { readContent, refusalCode, toBytes } from './backends/suite/suite-workspace.ts';
import { hiddenNames, keptCopies, keptFiles, keptFolders, openNames } from './default-names.ts';
import { writeFiles } from './search/make-folder.ts';

let folder: string;
let session: WorkspaceBackend;
let folders = 0;

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-names-')));
  session = openLocal(folder, { rules: createPathRules({ hide: [], keep: [], open: [] }) });
});
afterAll(async () => {
  await session.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A name as a file in a folder of its own, deep below in capitals, and as a folder with a file in it. */
function createPaths(name: string): { readonly path: string; readonly free: string }[] {
  const all = [name, `deep/er/${name.toUpperCase()}`, `${name}/inside/file`];
  // Each name in one of the ways, and each way with a third of the names: they do not depend on each other.
  return all
    .filter((_, way) => proof || way === name.length % all.length)
    .map((asked) => {
      const [path, free] = [`t${++folders}/${asked}`, `t${folders}/free`];
      writeFiles(folder, { [path]: 'content', [free]: 'content' });
      return { path, free };
    });
}

/** Tries every change of a path; returns the same code for each, or one after another. */
async function tryToChange(path: string, free: string): Promise<unknown> {
  const codes = await Promise.all(
    [
      session.write(path, toBytes('planted')),
      session.mayWrite(path),
      session.makeFolder(path),
      session.move(free, path, { overwrite: true }),
      session.move(path, `${free}-stolen`),
      session.remove(path, { recursive: true }),
    ].map(refusalCode),
  );
  return new Set(codes).size === 1 ? codes[0] : codes;
}

test('W7: each secret is hidden: it is neither read nor listed nor changed, and a listing tells only its name', async () => {
  for (const name of hiddenNames) {
    for (const { path, free } of createPaths(name)) {
      const looking = [session.stat(path), session.open(path), session.list(path)].map(refusalCode);
      expect(await Promise.all(looking), path).toEqual(Array(3).fill('PATH_PROTECTED'));
      expect(await tryToChange(path, free), path).toBe('PATH_PROTECTED');
      const parent = dirname(path);
      const listed = await session.list(parent, { facts: true }).catch(({ code }) => code);
      if (listed === 'PATH_PROTECTED') continue;
      expect(listed.entries, path).toContainEqual({
        name: path.slice(parent.length + 1),
        kind: 'file',
        hidden: true,
      });
    }
  }
});

test('W7: each file that other programs follow is readable, but not changed', async () => {
  // In `.ssh` only what is public can be read.
  for (const name of ['.git', ...keptFiles, ...keptFolders, ...keptCopies, '.ssh/id_rsa.pub']) {
    for (const { path, free } of createPaths(name)) {
      expect(await readContent(session, path), path).toBe('content');
      expect(await tryToChange(path, free), path).toBe('PATH_PROTECTED');
    }
  }
});

test('W7: files that only look like secrets are read and written', async () => {
  for (const name of openNames) {
    for (const { path } of createPaths(name)) {
      expect(await readContent(session, path), path).toBe('content');
      await session.write(path, toBytes('new'));
      expect(await readContent(session, path), path).toBe('new');
    }
  }
});
