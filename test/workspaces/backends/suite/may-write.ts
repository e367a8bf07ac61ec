import { describe, expect, test } from 'vitest';
import type { FileWriteOptions, WorkspaceBackend } from '../../../../src/workspaces/backends/backend.ts';
import { createPathRules } from '../../../../src/workspaces/path-guard.ts';
import { listTree, type Suite, toBytes } from './suite-workspace.ts';

export function describeMayWrite({ files, folder, open, workspace, links }: Suite): void {
  type Case = readonly [path: string, options?: FileWriteOptions];

  /** Whoever asks first and writes then is told the same twice, and asking leaves no trace. */
  async function agrees(session: WorkspaceBackend, at: string, cases: readonly Case[]): Promise<unknown[]> {
    const before = await listTree(files(), at);
    const asked = [];
    for (const [path, options] of cases)
      asked.push([path, options, await settleOutcome(session.mayWrite(path, options))]);
    expect(await listTree(files(), at)).toEqual(before);
    const done = [];
    for (const [path, options] of cases) {
      done.push([path, options, await settleOutcome(session.write(path, toBytes('written'), options))]);
    }
    expect(asked).toEqual(done);
    return asked.map(([, , told]) => told);
  }

  describe('asking whether a file may be written', () => {
    test('returns the path without making it', async () => {
      const at = await folder();
      const cases: Case[] = [[`${at}/f`], [`./${at}//n/e/./w/f`], [`${at}/n/../n/e/g`, { expected: 'absent' }]];
      const there = [{ path: `${at}/f` }, { path: `${at}/n/e/w/f` }, { path: `${at}/n/e/g` }];
      expect(await agrees(files(), at, cases)).toEqual(there);
    });

    test('refuses what writing would refuse', async () => {
      const at = await folder();
      const { version } = await files().write(`${at}/f`, toBytes('old'));
      await files().makeFolder(`${at}/d`);
      const paths = [
        at,
        '.',
        '',
        '..',
        '../x',
        `/${at}/f`,
        `${at}/../../x`,
        `${at}/d`,
        `${at}/f/x`,
        `${at}/f/x/y`,
        `${at}/new/`,
        `${at}/new/.`,
        `${at}/new/..`,
        `${at}/a\0b`,
        `${at}/${'n'.repeat(256)}`,
        `${at}/n/${'n'.repeat(256)}/x`,
        `${at}/${'e/'.repeat(200)}f`,
        `${at}/${'e/'.repeat(126)}f`,
        `${at}/f`,
        `${at}/${'e/'.repeat(125)}f`,
      ];
      const conditions: FileWriteOptions[] = [{ expected: 'absent' }, { expected: { version: 'no such' } }, {}];
      await agrees(
        files(),
        at,
        paths.flatMap((path) => conditions.map((options): Case => [path, options])),
      );
      const stale = await agrees(files(), at, [[`${at}/f`, { expected: { version } }]]);
      expect(stale).toMatchObject([{ code: 'FILE_CHANGED' }]);
      const now = await files().stat(`${at}/f`);
      const fresh = await agrees(files(), at, [[`${at}/f`, { expected: { version: now.version } }]]);
      expect(fresh).toEqual([{ path: `${at}/f` }]);
    });

    test('W7: refuses protected paths', async () => {
      const at = await folder();
      const session = await open({ rules: createPathRules({ hide: [], keep: [], open: [] }) });
      await files().write(`${at}/.git/config`, toBytes('config'));
      const names = ['.env', 'n/.env', '.git', '.git/config', '.git/hooks/x', '.GIT/y'];
      const told = await agrees(
        session,
        at,
        names.map((name): Case => [`${at}/${name}`]),
      );
      expect(told.map((each) => (each as Told).code)).toEqual(names.map(() => 'PATH_PROTECTED'));
    });

    test.runIf(links)('W3: follows links as writing does', async () => {
      const at = await folder();
      await files().write(`${at}/real/f`, toBytes('old'));
      const targets = {
        link: 'real/f',
        dangling: 'real/new',
        far: 'no/such/x',
        out: '../../x',
        host: '/etc/x',
        self: 'self',
      };
      for (const [name, target] of Object.entries(targets)) await workspace().link?.(`${at}/${name}`, target);
      await workspace().link?.(`${at}/dir`, 'real');
      const paths = [...Object.keys(targets), 'dir', 'dir/g', 'out/g', 'host/g'].map((name) => `${at}/${name}`);
      await agrees(
        files(),
        at,
        paths.flatMap((path): Case[] => [[path, { expected: 'absent' }], [path]]),
      );
    });
  });
}

interface Told {
  readonly code: unknown;
  readonly message: string;
  readonly hint: unknown;
}

async function settleOutcome(work: Promise<{ readonly path: string }>): Promise<{ readonly path: string } | Told> {
  return work.then(
    ({ path }) => ({ path }),
    ({ code, message, hint }: Told) => ({ code, message, hint }),
  );
}
