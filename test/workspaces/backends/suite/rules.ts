import { describe, expect, test } from 'vitest';
import type { WorkspaceBackend } from '../../../../src/workspaces/backends/backend.ts';
import { createPathRules } from '../../../../src/workspaces/path-guard.ts';
import { listTree, noRules, readContent, refusalCode, refusalMessage, type Suite, toBytes } from './suite-workspace.ts';

export function describeRules({ files, folder, open, workspace, links }: Suite): void {
  const usual = createPathRules({ hide: [], keep: [], open: [] });

  /** Everything one can try to do to a path. */
  const deeds = (session: WorkspaceBackend, path: string, at: string): Record<string, Promise<unknown>> => ({
    write: session.write(path, toBytes('planted')),
    absent: session.write(path, toBytes('planted'), { expected: 'absent' }),
    version: session.write(path, toBytes('planted'), { expected: { version: 'x' } }),
    mayWrite: session.mayWrite(path),
    makeFolder: session.makeFolder(path),
    remove: session.remove(path),
    tree: session.remove(path, { recursive: true }),
    from: session.move(path, `${at}/stolen`),
    to: session.move(`${at}/free`, path),
    over: session.move(`${at}/free`, path, { overwrite: true }),
  });
  const looks = (session: WorkspaceBackend, path: string): Record<string, Promise<unknown>> => ({
    stat: session.stat(path),
    link: session.stat(path, { link: true }),
    open: session.open(path),
    list: session.list(path),
  });

  async function allRefused(works: Record<string, Promise<unknown>>, about: string): Promise<void> {
    const codes = await Promise.all(Object.entries(works).map(async ([what, work]) => [what, await refusalCode(work)]));
    expect(Object.fromEntries(codes), about).toEqual(
      Object.fromEntries(Object.keys(works).map((what) => [what, 'PATH_PROTECTED'])),
    );
  }

  describe('W7: protected paths', () => {
    test('a refusal is a sentence about the requested path', async () => {
      const at = await folder();
      const session = await open({ rules: usual });
      await files().write(`${at}/.env`, toBytes('SECRET'));
      const said = await Promise.all(
        [`${at}/.env`, `${at}/new/.env`].map((path) => refusalMessage(session.open(path))),
      );
      expect(said).toEqual([`"${at}/.env" is hidden from sessions.`, `"${at}/new/.env" is hidden from sessions.`]);
    });

    test('hidden paths are neither read nor written, existing or not, in any spelling', async () => {
      const at = await folder();
      const session = await open({ rules: usual });
      await files().write(`${at}/free`, toBytes('free'));
      await files().write(`${at}/.env`, toBytes('SECRET'));
      await files().write(`${at}/.ssh/known/config`, toBytes('SECRET'));
      const before = await listTree(files(), at);
      const hidden = [
        '.env',
        '.ENV',
        './.env',
        '.env.local',

        'new/folder/.env',
        'key.PEM',
        '.ssh',
        '.ssh/known/config',
        '.ssh/missing/config',
        '.ssh/known/config/beyond',
        '.SSH/x',
        '.env ',
        '.env.',
        '.env::$DATA',
        '.e\u200bnv',
        '.\uff25\uff2e\uff36',
        '.\u017fsh/x',
        'id_rsa',
        'ID_RSA.bak',
      ];
      for (const name of hidden) {
        await allRefused(looks(session, `${at}/${name}`), name);
        await allRefused(deeds(session, `${at}/${name}`, at), name);
      }
      expect(await listTree(files(), at)).toEqual(before);
      expect(await readContent(files(), `${at}/.env`)).toBe('SECRET');
      expect(await refusalCode(session.stat(`${at}/.ssh/known/../../free`))).toBe('PATH_PROTECTED');
    });

    test('kept paths are read but not written', async () => {
      const at = await folder();
      const session = await open({ rules: usual });
      await files().write(`${at}/free`, toBytes('free'));
      await files().write(`${at}/.git/config`, toBytes('config'));
      const before = await listTree(files(), at);
      expect(await readContent(session, `${at}/.git/config`)).toBe('config');
      expect(await session.list(`${at}/.git`)).toMatchObject({ entries: [{ name: 'config' }] });
      for (const name of [
        '.git',
        '.git/config',
        '.git/hooks/pre-commit',
        '.Git/hooks/x',
        '.GIT',
        '.mcp.json',
        'n/.npmrc',
      ]) {
        await allRefused(deeds(session, `${at}/${name}`, at), name);
      }
      expect(await listTree(files(), at)).toEqual(before);
    });

    test('opened paths are readable and writable', async () => {
      const at = await folder();
      const session = await open({
        rules: createPathRules({ hide: [], keep: [], open: [`${at}/.vscode/settings.json`] }),
      });
      for (const name of ['.env.example', 'id_rsa.pub', '.github/x']) {
        await session.write(`${at}/${name}`, toBytes('x'));
        expect(await readContent(session, `${at}/${name}`)).toBe('x');
      }
      await files().makeFolder(`${at}/.vscode`);
      await session.write(`${at}/.vscode/settings.json`, toBytes('{}'));
      expect(await refusalCode(session.write(`${at}/.vscode/tasks.json`, toBytes('{}')))).toBe('PATH_PROTECTED');
      expect(await refusalCode(session.write(`${at}/.env.example/.env`, toBytes('')))).toBe('PATH_PROTECTED');
    });

    test('a listing has only the names of hidden entries', async () => {
      const at = await folder();
      const session = await open({ rules: usual });
      await files().write(`${at}/.env`, toBytes('SECRET'));
      await files().write(`${at}/f`, toBytes('x'));
      expect((await session.list(at, { facts: true })).entries).toEqual([
        { name: '.env', kind: 'file', hidden: true },
        { name: 'f', kind: 'file', bytes: 1, modifiedMs: expect.any(Number) },
      ]);
      expect(await refusalMessage(session.stat(`${at}/.en`))).not.toContain('.env');
    });

    test('a folder with a protected entry is neither removed nor moved', async () => {
      const at = await folder();
      const session = await open({ rules: usual });
      await files().write(`${at}/x/deep/.git/hooks/pre-commit`, toBytes('hook'));
      await files().write(`${at}/x/a`, toBytes('a'));
      await files().write(`${at}/y/z/.env`, toBytes('SECRET'));
      const before = await listTree(files(), at);
      for (const path of ['x', 'x/deep', 'y', 'y/z']) {
        expect(await refusalCode(session.remove(`${at}/${path}`, { recursive: true })), path).toBe('PATH_PROTECTED');
        expect(await refusalCode(session.move(`${at}/${path}`, `${at}/moved`)), path).toBe('PATH_PROTECTED');
        expect(await refusalCode(session.move(`${at}/${path}`, `${at}/new/${path}`)), path).toBe('PATH_PROTECTED');
      }
      expect(await refusalMessage(session.remove(`${at}/x`, { recursive: true }))).toContain(`"${at}/x/deep/.git"`);
      expect(await listTree(files(), at)).toEqual(before);
    });

    test('a folder cannot be moved to where its entries would be protected', async () => {
      const at = await folder();
      const rules = { ...noRules, kept: [`${at}/deploy/prod.yaml`, `${at}/.docker/config.json`] };
      const session = await open({ rules });
      await session.write(`${at}/x/prod.yaml`, toBytes('evil'));
      await session.write(`${at}/docker/config.json`, toBytes('evil'));
      const before = await listTree(files(), at);
      expect(await refusalCode(session.move(`${at}/x`, `${at}/deploy`))).toBe('PATH_PROTECTED');
      expect(await refusalCode(session.move(`${at}/x`, `${at}/DEPLOY/`))).toBe('PATH_PROTECTED');
      expect(await refusalCode(session.move(`${at}/docker`, `${at}/.docker`))).toBe('PATH_PROTECTED');
      expect(await refusalCode(session.write(`${at}/deploy/prod.yaml`, toBytes('evil')))).toBe('PATH_PROTECTED');
      expect(await listTree(files(), at)).toEqual(before);
    });

    test('nor while it is written to', async () => {
      const at = await folder();
      const session = await open({ rules: { ...noRules, kept: [`${at}/deploy/prod.yaml`] } });
      const large = new Uint8Array(2_000_000);
      for (let round = 0; round < 3; round++) {
        await session.makeFolder(`${at}/x`);
        await Promise.all([
          refusalCode(session.write(`${at}/x/prod.yaml`, large)),
          refusalCode(session.move(`${at}/x`, `${at}/deploy`)),
        ]);
        expect(await refusalCode(files().stat(`${at}/deploy/prod.yaml`))).toBe('FILE_NOT_FOUND');
        await files()
          .remove(`${at}/deploy`, { recursive: true })
          .catch(() => {});
        await files()
          .remove(`${at}/x`, { recursive: true })
          .catch(() => {});
      }
    });

    test.runIf(links)('links do not bypass the rules, at the end or in the middle', async () => {
      const at = await folder();
      const session = await open({ rules: usual });
      await files().write(`${at}/free`, toBytes('free'));
      await files().write(`${at}/.env`, toBytes('SECRET'));
      await files().write(`${at}/.git/hooks/sample`, toBytes('sample'));
      await files().write(`${at}/elsewhere/config`, toBytes('config'));
      await files().makeFolder(`${at}/.aws`);
      const link = async (path: string, target: string) => workspace().link?.(`${at}/${path}`, target);
      await link('notes', '.env');
      await link('chain', 'notes');
      await link('g', '.git');
      await link('h', 'g/hooks');
      await link('fresh', '.netrc');
      await link('.idea', 'elsewhere');
      await link('.aws/out', '../free');
      const before = await listTree(files(), at);
      const opening = async (path: string) => refusalCode(session.open(`${at}/${path}`));
      for (const path of ['notes', 'chain', 'fresh', '.aws/out'])
        expect(await opening(path), path).toBe('PATH_PROTECTED');
      const writing = async (path: string) => refusalCode(session.write(`${at}/${path}`, toBytes('planted')));
      for (const path of [
        'notes',
        'chain',
        'fresh',
        'g/config',
        'h/sample',
        'h/pre-commit',
        'h/new/x',
        '.idea/config',
      ]) {
        expect(await writing(path), path).toBe('PATH_PROTECTED');
      }
      expect(await refusalCode(session.remove(`${at}/h/sample`))).toBe('PATH_PROTECTED');
      expect(await refusalCode(session.move(`${at}/free`, `${at}/g/hooks/pre-commit`))).toBe('PATH_PROTECTED');
      expect(await refusalCode(session.makeFolder(`${at}/g/x`))).toBe('PATH_PROTECTED');
      expect(await listTree(files(), at)).toEqual(before);
      expect(await readContent(session, `${at}/h/sample`)).toBe('sample');
      // The link itself is nobody's.
      await session.remove(`${at}/notes`);
      expect(await readContent(files(), `${at}/.env`)).toBe('SECRET');
    });
  });
}
