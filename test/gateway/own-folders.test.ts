import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { hasBwrap } from '../needs/bwrap.ts';
import { until } from '../sandbox/tagged-processes.ts';
import { freshGateway, recorder, whoami } from '../upstreams/links/scoped-gateway.ts';
import { createScene, type Scene } from '../workspaces/session-folders/scene.ts';

const start = freshGateway();
const scenes: Scene[] = [];
afterEach(() => {
  for (const each of scenes.splice(0)) each.remove();
});

async function repository(): Promise<Scene> {
  const made = await createScene('worktree');
  scenes.push(made);
  return made;
}

test('W12: two sessions in one repository have processes, paths and file tools of their own', async () => {
  const { workspace } = await repository();
  const on = await start({
    servers: { own: recorder('session', 'modern'), wide: recorder('workspace', 'modern') },
    workspaces: { repo: { path: workspace, isolation: 'worktree' } },
  });
  const sessions = await Promise.all(
    ['ann', 'bob'].map((name) => on.open({ name, userId: name, workspaceId: 'repo' })),
  );
  const folders: string[] = [];
  for (const session of sessions) {
    const client = await on.connect(session, 'own', 'modern');
    const me = await whoami(client);
    folders.push(me.cwd);
    expect(me.told['AMBIT_WORKSPACE_PATH']).toBe(me.cwd);
    expect(me.told['AMBIT_WORKSPACE_ID']).toBe('repo');
    const { params } = JSON.parse(await client.call('echo')) as { params: { _meta: Record<string, object> } };
    expect(params._meta['ambit/context']).toMatchObject({ workspaceId: 'repo', workspacePath: me.cwd });
    expect(me.cwd.startsWith(join(on.folder, 'data', 'folders', session.id))).toBe(true);
  }
  expect(new Set([...folders, workspace]).size).toBe(3);
  // What serves a whole workspace would see the files of both.
  const wide = await Promise.all(sessions.map(async (each) => whoami(await on.connect(each, 'wide', 'modern'))));
  expect(wide.map(({ cwd }) => cwd)).toEqual(folders);
  expect(new Set(wide.map(({ pid }) => pid)).size).toBe(2);

  const [ann, bob] = await Promise.all(sessions.map((each) => on.connect(each, 'ambit', 'modern')));
  const edit = { session: 'current', path: 'readme.md', content: 'by ann\n' };
  expect(await ann?.call('session_edit_file', edit)).toContain('readme.md');
  expect(readFileSync(join(folders[0] as string, 'readme.md'), 'utf8')).toBe('by ann\n');
  expect(readFileSync(join(workspace, 'readme.md'), 'utf8')).toBe('one\ntwo\nthree\n');
  expect(await bob?.call('session_read_file', { session: 'current', path: 'readme.md' })).toContain('two');

  for (const { id } of sessions) await on.gateway.endSession(id);
  const settled = () => on.journal().filter(({ event }) => /^folder-(?:kept|removed)$/.test(String(event)));
  await until(
    () => settled().length === 2,
    10_000,
    () => JSON.stringify(settled()),
  );
  expect(folders.map((folder) => existsSync(folder))).toEqual([true, false]);
});

test('a session that can have no folder is not opened, and says what to do', async () => {
  const { workspace, folder } = await repository();
  const on = await start({ workspaces: { repo: { path: join(workspace, '..'), isolation: 'worktree' } } });
  const refused = on.open({ name: 'one', workspaceId: 'repo' });
  await expect(refused).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
  await expect(refused).rejects.toThrow('it is not in a git repository');
  await expect(refused).rejects.not.toThrow(folder);
  // Nothing of it is left: the name is free.
  await expect(on.open({ name: 'one' })).resolves.toBeDefined();
});

test('a session that chooses its workspace by call gets its folder when it first needs it', async () => {
  const { workspace } = await repository();
  const on = await start({
    servers: { own: recorder('session', 'modern') },
    workspaces: { repo: { path: workspace, isolation: 'copy' } },
  });
  const session = await on.open({ userId: 'ann' });
  expect(existsSync(join(on.folder, 'data/folders', session.id))).toBe(false);
  const client = await on.connect(session, 'own', 'modern', { meta: { 'ambit.workspace': 'repo' } });
  const { cwd } = await whoami(client);
  expect(cwd).not.toBe(workspace);
  expect(readFileSync(join(cwd, 'readme.md'), 'utf8')).toBe('one\ntwo\nthree\n');
});

test.skipIf(!hasBwrap())(
  'a sandboxed server sees its own folder, and neither the workspace nor any other',
  async () => {
    const { workspace } = await repository();
    const on = await start({
      servers: { own: recorder('session', 'modern') },
      workspaces: { repo: { path: workspace, isolation: 'copy' } },
    });
    const [one, two] = await Promise.all(
      ['one', 'two'].map((name) => on.open({ name, workspaceId: 'repo', trustLevel: 'sandboxed' })),
    );
    const client = await on.connect(one as { id: string }, 'own', 'modern');
    const { cwd } = await whoami(client);
    const other = await whoami(await on.connect(two as { id: string }, 'own', 'modern'));
    expect([cwd.includes(one?.id ?? '-'), other.cwd.includes(two?.id ?? '-')]).toEqual([true, true]);
    const look = async (path: string) => JSON.parse(await client.call('look', { path })) as unknown;
    expect(await look(cwd)).toContain('readme.md');
    // Neither the record of the folder beside it, nor anything else of the data directory.
    expect(await look(join(cwd, '..'))).toEqual([basename(cwd)]);
    for (const path of [workspace, other.cwd, join(on.folder, 'data', 'keys')]) expect(await look(path)).toBe('ENOENT');
  },
);
