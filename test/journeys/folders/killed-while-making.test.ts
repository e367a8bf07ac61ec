import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import { proof } from '../../proof.ts';
import { until } from '../../runners/tagged-processes.ts';
import { contents, type Isolation, type Scene, scene } from '../../workspaces/isolation/scene.ts';
import { ambitBin } from '../start-ambit.ts';

let at: Scene | undefined;
afterEach(() => at?.remove());

/** Many enough that making a folder of them takes a while. */
const files = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`d${i % 20}/f${i}.txt`, `content ${i}\n`]));

const kinds: readonly Isolation[] = proof ? ['worktree', 'copy'] : ['worktree'];

test.each(kinds)(
  'W12: a process that is killed while it makes a folder by %s leaves nothing that counts',
  async (isolation) => {
    at = await scene(isolation, { files });
    const { workspace, folder, git } = at;
    const config = join(folder, 'etc.json');
    writeFileSync(config, JSON.stringify({ version: 1, workspaces: { repo: { path: workspace, isolation } } }));
    const places = ['--config', config, '--data-dir', join(folder, 'own-data')];
    const args = ['session', 'create', '--workspace', 'repo', '--name', 'task', ...places];
    const maker = spawn(process.execPath, [ambitBin, ...args], { stdio: 'ignore' });
    const exited = once(maker, 'exit');
    const folders = join(folder, 'own-data', 'folders');
    const making = () => recordIn(folders)?.state === 'making' || maker.exitCode !== null;
    await until(making, 30_000, () => 'no folder was begun');
    maker.kill('SIGKILL');
    await exited;
    expect(recordIn(folders)).toMatchObject({ state: 'making' });

    // The session lives on, and its folder is made anew when it is needed.
    const { code, stdout, stderr } = await ambitInProcess(['session', 'diff', 'task', '--json', ...places]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('changed nothing')]);
    const { path } = JSON.parse(stdout) as { path: string };
    expect(contents(path)).toEqual(contents(workspace));
    if (isolation === 'worktree') expect(git('worktree', 'list').trim().split('\n')).toHaveLength(2);
    await ambitInProcess(['session', 'end', 'task', ...places]);
    expect(existsSync(path)).toBe(false);
    if (isolation === 'worktree') {
      expect(git('worktree', 'list').trim().split('\n')).toHaveLength(1);
      expect(git('branch', '--list', 'ambit*')).toBe('');
    }
  },
);

function recordIn(folders: string): { readonly state: string } | undefined {
  try {
    const [session] = readdirSync(folders).filter((name) => !name.startsWith('.'));
    return JSON.parse(readFileSync(join(folders, session as string, 'repo', 'folder.json'), 'utf8')) as {
      state: string;
    };
  } catch {
    return undefined;
  }
}
