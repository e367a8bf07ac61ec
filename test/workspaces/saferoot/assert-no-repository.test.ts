import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { pathRules } from '../../../src/workspaces/path-rules.ts';
import { runGit } from '../../fixtures/hostile/builds-repository.js';
import { bytes, codeOf, messageOf } from '../backends/suite/suite-workspace.ts';

let folder: string;
let session: WorkspaceBackend;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-trap-')));
  session = openLocal(folder, { rules: pathRules({ hide: [], keep: [], open: ['fixtures/**'] }) });
});
afterEach(async () => {
  await session.close();
  rmSync(folder, { recursive: true, force: true });
});

const at = (path: string) => join(folder, path);
function put(path: string, content = ''): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), content);
}

/** Each makes one name in a folder, in another way. */
const ways: Record<string, (path: string, isFile: boolean) => Promise<unknown>> = {
  directly: (path, isFile) =>
    isFile ? session.write(path, bytes('ref: refs/heads/main\n')) : session.makeFolder(path),
  'with something in it': (path, isFile) =>
    isFile ? session.write(path, bytes('x'), { expected: 'absent' }) : session.write(`${path}/deep/file`, bytes('x')),
  'by a move': async (path, isFile) => {
    const spare = `spare-${Math.random()}`;
    await (isFile ? session.write(spare, bytes('ref: refs/heads/main\n')) : session.makeFolder(spare));
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
    expect(await codeOf(make(`${docs}/${last}`, isFile(last))), `${way}: ${names}`).toBe('PATH_PROTECTED');
    expect(existsSync(at(`${docs}/${last}`))).toBe(false);
    if (isFile(last)) expect(await codeOf(session.mayWrite(`${docs}/${last}`))).toBe('PATH_PROTECTED');
    if (way !== 'directly') continue;
    // What is left is still no repository for git.
    await session.write(`${docs}/config`, bytes('[core]\n\tfsmonitor = touch planted; false\n\tworktree = .\n'));
    expect(() =>
      runGit(at(docs), ['status'], { env: { PATH: process.env['PATH'], GIT_CEILING_DIRECTORIES: folder } }),
    ).toThrow('not a git repository');
  }
});

test('S4: parts that are written at the same time do not come together', async () => {
  for (let round = 0; round < 5; round++) {
    const docs = `docs${round}`;
    const works = [
      session.write(`${docs}/HEAD`, bytes('ref: refs/heads/main\n'.padEnd(200_000))),
      session.makeFolder(`${docs}/objects`),
      session.write(`${docs}/refs/x`, bytes('x')),
    ];
    await Promise.allSettled(works);
    const there = ['HEAD', 'objects', 'refs'].filter((name) => existsSync(at(`${docs}/${name}`)));
    expect(there).not.toHaveLength(3);
  }
});

test('S4: a repository that is there under any name is read, and neither changed nor moved', async () => {
  for (const name of ['HEAD', 'objects/x', 'refs/x', 'config', 'hooks/post-checkout']) put(`vendor/repo/${name}`);
  mkdirSync(at('links'));
  symlinkSync('../vendor/repo', at('links/repo'));
  const deeds = [
    session.write('vendor/repo/config', bytes('planted')),
    session.write('vendor/repo/hooks/pre-commit', bytes('planted')),
    session.write('links/repo/hooks/pre-commit', bytes('planted')),
    session.mayWrite('vendor/repo/config'),
    session.makeFolder('vendor/repo/new'),
    session.move('vendor/repo/config', 'stolen'),
    session.move('vendor', 'elsewhere'),
    session.remove('vendor', { recursive: true }),
  ];
  expect(new Set(await Promise.all(deeds.map(codeOf)))).toEqual(new Set(['PATH_PROTECTED']));
  expect((await session.open('vendor/repo/config')).facts.kind).toBe('file');
  expect(await messageOf(session.write('vendor/repo/config', bytes('')))).toBe(
    '"vendor/repo/config" lies in a git repository, which sessions may not change.',
  );
});

test('S4: what the operator opens is free, and so is what only resembles a repository', async () => {
  for (const name of ['HEAD', 'objects/x', 'refs/x', 'config'])
    await session.write(`fixtures/repo/${name}`, bytes('x'));
  for (const name of ['objects/x', 'refs/x', 'config', 'HEAD.md']) await session.write(`src/${name}`, bytes('x'));
  for (const name of ['HEAD', 'objects/refs/x', 'commondir.md']) await session.write(`lib/${name}`, bytes('x'));
});
