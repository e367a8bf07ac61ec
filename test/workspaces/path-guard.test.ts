import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { WorkspaceBackend } from '../../src/workspaces/backends/backend.ts';
import { openLocal } from '../../src/workspaces/backends/local/open-local.ts';
import { createPathGuard, createPathRules } from '../../src/workspaces/path-guard.ts';
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

describe('W7: the guard', () => {
  const guard = createPathGuard(
    createPathRules({ hide: ['secrets/**/*.json'], keep: ['deploy/'], open: ['.vscode/a.json'] }),
  );
  const verdict = (path: string) =>
    guard.refusal('read', path.split('/')) !== undefined
      ? 'hidden'
      : guard.refusal('write', path.split('/')) !== undefined
        ? 'kept'
        : 'free';

  test.each([
    ['src/index.ts', 'free'],
    ['environment', 'free'],
    ['.envoy', 'free'],
    ['.github/workflows/x.yml', 'kept'],
    ['.github/ISSUE_TEMPLATE/bug.md', 'free'],
    ['packages/a/agents.MD', 'kept'],
    ['Makefile', 'free'],
    ['.gitignore', 'free'],
    ['a/b/.env', 'hidden'],
    ['.env.production', 'hidden'],
    ['.env.example', 'free'],
    ['.env.example/.env', 'hidden'],
    ['.ENV.Local', 'hidden'],
    ['.env.', 'hidden'],
    ['.env...  ', 'hidden'],
    ['.env:stream', 'hidden'],
    ['.env.:x', 'hidden'],
    ['id_rsa.pub', 'free'],
    ['id_rsa.pub:x', 'hidden'],
    ['.s\u200dsh/x', 'hidden'],
    ['.\uff53\uff53\uff48/x', 'hidden'],
    ['.AWS', 'hidden'],
    ['.docker/config.json', 'hidden'],
    ['.DOCKER/CONFIG.json.', 'hidden'],
    ['.docker/other.json', 'free'],
    ['home/me/.docker/config.json', 'hidden'],
    ['secrets/a/b/c.json', 'hidden'],
    ['secrets/c.json', 'hidden'],
    ['secrets/c.txt', 'free'],
    ['.git', 'kept'],
    ['.GIT/hooks/x', 'kept'],
    ['.g\u0131t/config', 'kept'],
    ['sub/.git/config', 'kept'],
    ['.git /config', 'kept'],
    ['.git/x/.env', 'hidden'],
    ['deploy', 'kept'],
    ['deploy/a', 'kept'],
    ['x/deploy/a', 'kept'],
    ['.vscode/a.json', 'free'],
    ['.vscode/b.json', 'kept'],
    ['.vscode', 'kept'],
    ['.git/hooks/x.pub', 'kept'],
    ['.devcontainer/x.pub/devcontainer.json', 'kept'],
    ['.claude/skills/.env.example/SKILL.md', 'kept'],
    ['.ssh/id_rsa.pub', 'kept'],
  ])('%s is %s', (path, expected) => {
    expect(verdict(path)).toBe(expected);
  });

  test.each([
    ['customers/list.pub/all.csv', 'hidden'],
    ['customers/notes.pub', 'hidden'],
    ['customers/.env.template', 'hidden'],
    ['team.pub', 'hidden'],
    ['other.pub', 'free'],
    ['.ssh/other.pub', 'free'],
    ['customers/open/x.pub', 'free'],
  ])('S4: what the operator hides is not shown for its name: %s is %s', (path, expected) => {
    const rules = createPathRules({ hide: ['customers', 'team.pub'], keep: [], open: ['customers/open'] });
    const why = createPathGuard(rules).refusal('read', path.split('/'));
    expect(why === undefined ? 'free' : 'hidden').toBe(expected);
  });

  test('forms of accents make no difference', () => {
    const named = createPathGuard({ hidden: ['Schlüssel'], kept: [], open: [] });
    for (const name of ['schlüssel', 'SCHLU\u0308SSEL', 'Schlu\u0308ssel', 'Schlüßel'.replace('ß', 'ss')]) {
      expect(named.refusal('read', [name])).toBeDefined();
    }
  });

  test('other case or invisible characters open nothing', () => {
    const odd = (name: string) =>
      fc
        .array(fc.tuple(fc.boolean(), fc.constantFrom('', '', '', '\u200b', '\u00ad', '\ufe0f')), {
          minLength: name.length,
          maxLength: name.length,
        })
        .map((how) =>
          [...name].map((letter, at) => (how[at]?.[0] ? letter.toUpperCase() : letter) + (how[at]?.[1] ?? '')).join(''),
        );
    const closed = fc.constantFrom('.env', '.git', '.ssh', '.netrc', 'id_ed25519', '.mcp.json').chain(odd);
    fc.assert(
      fc.property(closed, fc.constantFrom('', '.', ' ', '. .', ':$DATA'), (name, end) => {
        expect(guard.refusal('write', ['a', name + end, 'x'])).toBeDefined();
      }),
    );
  });
});
