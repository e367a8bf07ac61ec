import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { lookUp } from '../../../src/runners/look-up.ts';
import { ambitInProcess } from '../../cli/in-process.ts';
import { proof } from '../../proof.ts';
import { isAlive, until } from '../../runners/tagged-processes.ts';
import { contents, type Isolation, type Scene, scene } from '../../workspaces/isolation/scene.ts';
import { ambitBin } from '../start-ambit.ts';

let at: Scene | undefined;
afterEach(() => at?.remove());

/** Where a copy is made, many enough that it takes a while: nothing stops it half way. */
const filesOf = (isolation: Isolation) =>
  Object.fromEntries(
    Array.from({ length: isolation === 'copy' ? 3000 : 20 }, (_, i) => [`d${i % 20}/f${i}.txt`, `content ${i}\n`]),
  );

/** The git command after which the process is killed. */
const moments = ['worktree', 'read-tree'] as const;
const kinds: readonly (readonly [Isolation, string])[] = proof
  ? [...moments.map((moment) => ['worktree', moment] as const), ['copy', 'no command']]
  : [['worktree', 'worktree']];

/** A git that does what it is told, and after that command waits for a file, so that the killing is never too late. */
function makeWaitingGit(folder: string, after: string) {
  const bin = join(folder, 'bin');
  const [begun, goesOn] = [join(folder, 'git-waits'), join(folder, 'git-goes-on')];
  mkdirSync(bin);
  const real = lookUp('git', process.env['PATH']);
  const script = [
    '#!/bin/sh',
    `"${real}" "$@" || exit`,
    `case " $* " in *" ${after} "*) echo $$ >"${begun}.new"; mv "${begun}.new" "${begun}"; ;; *) exit 0 ;; esac`,
    `while [ ! -e "${goesOn}" ]; do sleep 0.02; done`,
  ];
  writeFileSync(join(bin, 'git'), `${script.join('\n')}\n`, { mode: 0o755 });
  return {
    path: `${bin}:${process.env['PATH']}`,
    isWaiting: () => existsSync(begun),
    async end() {
      if (!existsSync(begun)) return;
      writeFileSync(goesOn, '');
      const pid = Number(readFileSync(begun, 'utf8'));
      await until(
        () => !isAlive(pid),
        5000,
        () => 'git has not left',
      );
    },
  };
}

test.each(kinds)(
  'W12: a process that is killed while it makes a folder by %s, after git has done "%s", leaves nothing that counts',
  async (isolation, moment) => {
    at = await scene(isolation, { files: filesOf(isolation) });
    const { workspace, folder, git } = at;
    const waiting = makeWaitingGit(folder, moment);
    const config = join(folder, 'etc.json');
    writeFileSync(config, JSON.stringify({ version: 1, workspaces: { repo: { path: workspace, isolation } } }));
    const places = ['--config', config, '--data-dir', join(folder, 'own-data')];
    const args = ['session', 'create', '--workspace', 'repo', '--name', 'task', ...places];
    const env = { ...process.env, PATH: waiting.path };
    const maker = spawn(process.execPath, [ambitBin, ...args], { stdio: 'ignore', env });
    const exited = once(maker, 'exit');
    const folders = join(folder, 'own-data', 'folders');
    const begun = () => (isolation === 'copy' ? recordIn(folders)?.state === 'making' : waiting.isWaiting());
    await until(
      () => begun() || maker.exitCode !== null,
      30_000,
      () => 'no folder was begun',
    );
    maker.kill('SIGKILL');
    await exited;
    await waiting.end();
    expect(recordIn(folders)).toMatchObject({ state: 'making' });
    if (!proof) ageLocks(folders);

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

/** A lock that a dead process has left is broken after five seconds. Nobody has to wait for that here. */
function ageLocks(folders: string): void {
  const locks = readdirSync(folders).filter((name) => name.endsWith('.lock'));
  expect(locks).toHaveLength(1);
  for (const name of locks) utimesSync(join(folders, name), 0, 0);
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
