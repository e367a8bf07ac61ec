import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { createPathRules } from '../../../src/workspaces/path-guard.ts';
import { runGit } from '../../fixtures/hostile/builds-repository.js';
import { refusalCode, refusalMessage, toBytes } from '../backends/suite/suite-workspace.ts';
import { writeFiles } from '../search/make-folder.ts';

let folder: string;
let session: WorkspaceBackend;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-trap-')));
  session = openLocal(folder, { rules: createPathRules({ hide: [], keep: [], open: ['fixtures/**'] }) });
});
afterEach(async () => {
  await session.close();
  rmSync(folder, { recursive: true, force: true });
});

const pathInFolder = (path: string) => join(folder, path);

/** Each makes one name in a folder, in another way. */
const ways: Record<string, (path: string, isFile: boolean) => Promise<unknown>> = {
  directly: (path, isFile) =>
    isFile ? session.write(path, toBytes('ref: refs/heads/main\n')) : session.makeFolder(path),
  'with something in it': (path, isFile) =>
    isFile
      ? session.write(path, toBytes('x'), { expected: 'absent' })
      : session.write(`${path}/deep/file`, toBytes('x')),
  'by a move': async (path, isFile) => {
    const spare = `spare-${Math.random()}`;
    await (isFile ? session.write(spare, toBytes('ref: refs/heads/main\n')) : session.makeFolder(spare));
    return session.move(spare, path);
  },
};

const orders = [
  ['HEAD', 'objects', 'refs'],
  ['refs', 'HEAD', 'objects'],
  ['objects', 'refs', 'HEAD'],
  ['commondir', 'HEAD'],
  ['HEAD', 'commondir'],
  ['head', 'Objects', 'REFS'],
  ['refs.', 'OBJECTS', 'HEAD:x'],
] as const;

test.each(Object.keys(ways))('S4: no order of names makes a folder a repository, made %s', async (way) => {
  const make = ways[way] as (typeof ways)[string];
  let count = 0;
  for (const names of orders) {
    const docs = `d${++count}/docs`;
    const isFile = (name: string) => /^(?:head|commondir)/i.test(name);
    for (const name of names.slice(0, -1)) await make(`${docs}/${name}`, isFile(name));
    const last = names.at(-1) as string;
    expect(await refusalCode(make(`${docs}/${last}`, isFile(last))), `${way}: ${names}`).toBe('PATH_PROTECTED');
    expect(existsSync(pathInFolder(`${docs}/${last}`))).toBe(false);
    if (isFile(last)) expect(await refusalCode(session.mayWrite(`${docs}/${last}`))).toBe('PATH_PROTECTED');
    if (way !== 'directly') continue;
    // The rest is still no repository for git.
    await session.write(`${docs}/config`, toBytes('[core]\n\tfsmonitor = touch planted; false\n\tworktree = .\n'));
    expect(() =>
      runGit(pathInFolder(docs), ['status'], { env: { PATH: process.env['PATH'], GIT_CEILING_DIRECTORIES: folder } }),
    ).toThrow('not a git repository');
  }
});

test('S4: parts of a repository that are written in parallel are refused', async () => {
  for (let round = 0; round < 5; round++) {
    const docs = `docs${round}`;
    const works = [
      session.write(`${docs}/HEAD`, toBytes('ref: refs/heads/main\n'.padEnd(200_000))),
      session.makeFolder(`${docs}/objects`),
      session.write(`${docs}/refs/x`, toBytes('x')),
    ];
    await Promise.allSettled(works);
    const there = ['HEAD', 'objects', 'refs'].filter((name) => existsSync(pathInFolder(`${docs}/${name}`)));
    expect(there).not.toHaveLength(3);
  }
});

test('S4: a repository under any name is readable, and neither changed nor moved', async () => {
  for (const name of ['HEAD', 'objects/x', 'refs/x', 'config', 'hooks/post-checkout'])
    writeFiles(folder, { [`vendor/repo/${name}`]: '' });
  mkdirSync(pathInFolder('links'));
  symlinkSync('../vendor/repo', pathInFolder('links/repo'));
  const deeds = [
    session.write('vendor/repo/config', toBytes('planted')),
    session.write('vendor/repo/hooks/pre-commit', toBytes('planted')),
    session.write('links/repo/hooks/pre-commit', toBytes('planted')),
    session.mayWrite('vendor/repo/config'),
    session.makeFolder('vendor/repo/new'),
    session.move('vendor/repo/config', 'stolen'),
    session.move('vendor', 'elsewhere'),
    session.remove('vendor', { recursive: true }),
  ];
  expect(new Set(await Promise.all(deeds.map(refusalCode)))).toEqual(new Set(['PATH_PROTECTED']));
  expect((await session.open('vendor/repo/config')).facts.kind).toBe('file');
  expect(await refusalMessage(session.write('vendor/repo/config', toBytes('')))).toBe(
    '"vendor/repo/config" is part of a git repository, which sessions may not change.',
  );
});

test('S4: paths that the operator opens are writable, and so are folders that only resemble a repository', async () => {
  for (const name of ['HEAD', 'objects/x', 'refs/x', 'config'])
    await session.write(`fixtures/repo/${name}`, toBytes('x'));
  for (const name of ['objects/x', 'refs/x', 'config', 'HEAD.md']) await session.write(`src/${name}`, toBytes('x'));
  for (const name of ['HEAD', 'objects/refs/x', 'commondir.md']) await session.write(`lib/${name}`, toBytes('x'));
});
