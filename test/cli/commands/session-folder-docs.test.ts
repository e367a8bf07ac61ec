import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { createGateway } from '../../../src/index.ts';
import { repository } from '../../structure/source-files.ts';
import { createScene, writeFiles } from '../../workspaces/session-folders/scene.ts';
import { ambitInProcess } from '../in-process.ts';

const page = readFileSync(join(repository, 'docs/how-to/a-folder-per-session.md'), 'utf8');
const blocks = (language: string) =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map((match) => match[1] as string);

const at = await createScene('worktree');
afterAll(() => at.remove());

test('every command of the how-to works, in order', async () => {
  const file = join(at.folder, 'ambit.yaml');
  const [yaml] = blocks('yaml') as [string];
  const { config } = await loadConfig({ text: yaml, file });
  expect(config.workspaces).toMatchObject({ notes: { isolation: 'copy', onEnd: 'keep' } });
  writeFileSync(file, yaml.replace('/srv/projects/my-project', at.workspace));
  const dataDir = join(at.folder, 'own-data');
  const places = ['--config', file, '--data-dir', dataDir];
  const ambit = (line: string) => ambitInProcess([...line.replace('npx ambit ', '').trim().split(' '), ...places]);
  // As git tells it, which costs less than a command of ours.
  const folderOf = (name: string) =>
    new RegExp(`^worktree (.*)\n.*\nbranch refs/heads/ambit/${name}$`, 'm').exec(
      at.git('worktree', 'list', '--porcelain'),
    )?.[1] as string;

  const [first, second] = blocks('sh').map((block) => block.trim().split('\n')) as [string[], string[]];
  const said: string[] = [];
  for (const line of first) {
    const { code, stdout } = await ambit(line);
    expect([line, code]).toEqual([line, 0]);
    said.push(stdout);
    if (line.includes('create')) writeFiles(folderOf('task-49'), { 'new.txt': 'new\n' });
  }
  expect(said[1]).toMatch(/new\.txt +added +1 +0/);
  expect(said[2]).toContain('dry run');
  expect(said[3]).toMatch(/new\.txt +added +taken/);
  expect(readFileSync(join(at.workspace, 'new.txt'), 'utf8')).toBe('new\n');

  // Not shown on the page: so by one gateway, which costs less than a command for each step.
  const gateway = await createGateway({ config: file, dataDir, log: { info() {}, warn() {} } });
  const folders: string[] = [];
  for (const name of ['task-50', 'task-51']) {
    const { id } = await gateway.createSession({ workspaceId: 'my-project', name });
    folders.push(folderOf(name));
    writeFiles(folderOf(name), { 'new.txt': `${name}\n` });
    await gateway.endSession(id);
  }
  await gateway.close();
  writeFiles(at.workspace, { 'readme.md': 'changed meanwhile\n' });
  for (const line of second) expect([line, (await ambit(line)).code]).toEqual([line, 0]);
  expect(folders.map((folder) => existsSync(folder))).toEqual([false, false]);
  expect(readFileSync(join(at.workspace, 'new.txt'), 'utf8')).toBe('task-50\n');
});
