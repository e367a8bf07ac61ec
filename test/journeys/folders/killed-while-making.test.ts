import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { findProgramOnPath } from '../../../src/sandbox/common/find-program.ts';
import { ambitInProcess } from '../../cli/in-process.ts';
import { proof } from '../../proof.ts';
import { processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import { createScene, type Isolation, readFiles, type Scene } from '../../workspaces/session-folders/scene.ts';
import { ambitBin } from '../start-ambit.ts';
import { waitUntilEmpty } from '../wait-until.ts';

let at: Scene | undefined;
afterEach(() => at?.remove());

/** So many files that a copy takes a while: nothing stops it half way. */
const filesOf = (isolation: Isolation) =>
  Object.fromEntries(
    Array.from({ length: isolation === 'copy' ? 3000 : 20 }, (_, i) => [`d${i % 20}/f${i}.txt`, `content ${i}\n`]),
  );

/** The git command after which the process is killed. */
const moments = ['worktree', 'read-tree'] as const;
const kinds: readonly (readonly [Isolation, string])[] = proof
  ? [...moments.map((moment) => ['worktree', moment] as const), ['copy', 'no command']]
  : [['worktree', 'worktree']];

/** A git that does what it is told, notes that down in its git folder, and after that command never leaves. */
function makeWaitingGit(folder: string, after: string): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  const real = findProgramOnPath('git', process.env['PATH']);
  const script = [
    '#!/bin/sh',
    `"${real}" "$@" || exit`,
    `case " $* " in *" ${after} "*) ;; *) exit 0 ;; esac`,
    'for each; do case "$each" in --git-dir=*) echo >"$(echo "$each" | cut -c 11-)/git-waits" ;; esac; done',
    'while :; do sleep 1; done',
  ];
  writeFileSync(join(bin, 'git'), `${script.join('\n')}\n`, { mode: 0o755 });
  return `${bin}:${process.env['PATH']}`;
}

test.each(kinds)(
  'W12: a process that is killed while it makes a folder by %s, after git has done "%s", leaves nothing that counts',
  async (isolation, moment) => {
    at = await createScene(isolation, { files: filesOf(isolation) });
    const { workspace, folder, git } = at;
    const path = makeWaitingGit(folder, moment);
    const config = join(folder, 'etc.json');
    writeFileSync(config, JSON.stringify({ version: 1, workspaces: { repo: { path: workspace, isolation } } }));
    const places = ['--config', config, '--data-dir', join(folder, 'own-data')];
    const args = ['session', 'create', '--workspace', 'repo', '--name', 'task', ...places];
    const env = { ...process.env, PATH: path };
    const maker = spawn(process.execPath, [ambitBin, ...args], { stdio: 'ignore', env });
    const exited = once(maker, 'exit');
    const folders = join(folder, 'own-data', 'folders');
    const isWaiting = () =>
      [join(workspace, '.git'), ...shadowsIn(folders)].some((each) => existsSync(join(each, 'git-waits')));
    const begun = () => (isolation === 'copy' ? recordIn(folders)?.state === 'making' : isWaiting());
    await until(
      () => begun() || maker.exitCode !== null,
      30_000,
      () => 'no folder was begun',
    );
    maker.kill('SIGKILL');
    await exited;
    await waitUntilEmpty(() => processesIn(workspace), 5000);
    expect(recordIn(folders)).toMatchObject({ state: 'making' });
    if (!proof) ageLocks(folders);

    // The session lives on, and its folder is made anew when it is needed.
    const { code, stdout, stderr } = await ambitInProcess(['session', 'diff', 'task', '--json', ...places]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('No unmerged changes')]);
    const made = (JSON.parse(stdout) as { path: string }).path;
    expect(readFiles(made)).toEqual(readFiles(workspace));
    if (isolation === 'worktree') expect(git('worktree', 'list').trim().split('\n')).toHaveLength(2);
    await ambitInProcess(['session', 'end', 'task', ...places]);
    expect(existsSync(made)).toBe(false);
    if (isolation === 'worktree') {
      expect(git('worktree', 'list').trim().split('\n')).toHaveLength(1);
      expect(git('branch', '--list', 'ambit*')).toBe('');
    }
  },
);

/** A lock that a dead process has left is broken after five seconds. Nobody has to wait for that here. */
function ageLocks(folders: string): void {
  const locks = readdirSync(folders).filter((name) => name.endsWith('.lock'));
  expect(locks).toHaveLength(1);
  for (const name of locks) utimesSync(join(folders, name), 0, 0);
}

function shadowsIn(folders: string): string[] {
  if (!existsSync(folders)) return [];
  return readdirSync(folders).map((session) => join(folders, session, 'repo', 'git'));
}

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
