import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import { lookUpTool } from '../../../sandbox/common/find-program.ts';
import { makePrivateFolder } from '../../../sandbox/processes/supervise.ts';
import type { RunningProcess, SandboxRunner } from '../../../sandbox/runner.ts';
import { readBounded } from '../../read-bounded.ts';
import { confinementFor, type GitPlace, type GitSight } from './git-confinement.ts';
import { GitError } from './git-error.ts';

export type { GitPlace };

export interface GitOptions extends GitSight {
  readonly input?: string;
  /** Ten minutes unless given. Less where a session may have put something in the way, such as a pipe. */
  readonly limitMs?: number;
}

/** Runs git in a sandbox, and gives what it printed. */
export type RunGit = (place: GitPlace, args: readonly string[], options?: GitOptions) => Promise<Buffer>;

export interface GitRunnerOptions {
  /** The sandbox that this machine has; rejects where there is none. */
  readonly sandbox: () => Promise<SandboxRunner>;
  /** The instance's folder, where the warden finds the folders of processes. */
  readonly tmpRoot: string;
}

/** Whatever of a repository's configuration would run a program, fetch something, or look further than it must. */
const harmless = [
  ['core.hooksPath', '/dev/null'],
  ['core.fsmonitor', 'false'],
  ['core.untrackedCache', 'false'],
  ['core.attributesFile', '/dev/null'],
  ['core.excludesFile', '/dev/null'],
  ['core.sshCommand', 'false'],
  ['core.alternateRefsCommand', 'false'],
  ['core.pager', 'cat'],
  ['core.editor', 'false'],
  ['core.askPass', 'false'],
  ['credential.helper', ''],
  ['protocol.allow', 'never'],
  ['submodule.recurse', 'false'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['worktree.guessRemote', 'false'],
  // It would set permission bits that a sandbox refuses.
  ['core.sharedRepository', 'umask'],
].flatMap(([key, value]) => ['-c', `${key}=${value}`]);

const timeLimitMs = 600_000;
const outputBytes = 256 * 1024 * 1024;
const complaintBytes = 1024 * 1024;
/** Folders in the instance's own, which several may share. */
let made = 0;

/**
 * Runs git without anybody's configuration but the repository's own, and of that without what could run something. It
 * runs in a sandbox that holds the folders it is given: whatever a link, a pointer or a program in there leads to
 * outside is not there.
 */
export function createGitRunner({ sandbox, tmpRoot }: GitRunnerOptions): RunGit {
  async function start(place: GitPlace, args: readonly string[], sight: GitSight): Promise<RunningProcess> {
    const command = lookUpTool('git', process.env['PATH']);
    if (command === undefined) throw new GitError('git is not installed', { missing: true });
    const runner = await sandbox().catch((error: unknown) => {
      throw noSandbox(error);
    });
    const tmpDir = join(realpathSync.native(tmpRoot), `git-${process.pid}-${++made}`);
    await makePrivateFolder(tmpDir);
    const where = [
      `--git-dir=${place.gitDir}`,
      ...(place.workTree === undefined ? [] : [`--work-tree=${place.workTree}`]),
    ];
    try {
      return await runner.start({
        command,
        args: [...harmless, ...where, ...args],
        env: environment({ GIT_OBJECT_DIRECTORY: place.objects, GIT_INDEX_FILE: place.index }),
        cwd: tmpDir,
        tmpDir,
        confinement: confinementFor(place, sight, tmpDir),
      });
    } catch (error) {
      throw isAmbitError(error) ? noSandbox(error) : new GitError(`git ${args[0]}: ${error}`, { cause: error });
    }
  }

  return async (place, args, options = {}) => {
    const running = await start(place, args, options);
    let isStopped = false;
    const stop = () => {
      isStopped = true;
      running.stdout.destroy();
      void running.end();
    };
    const limit = setTimeout(stop, options.limitMs ?? timeLimitMs);
    // One that has ended without reading all is told about by its exit.
    running.stdin.on('error', () => {});
    running.stdin.end(options.input ?? '');
    try {
      const [said, complaint, exit] = await Promise.all([
        readBounded(running.stdout, outputBytes, stop),
        readBounded(running.stderr, complaintBytes, stop),
        running.exited,
      ]);
      if (exit.code === 0 && said !== undefined) return said;
      const words = complaint?.toString('utf8').trim().slice(0, 2000) || exit.reason || `ended with ${exit.code}`;
      throw new GitError(`git ${args[0]}: ${words}`, exit.code === null || isStopped ? {} : { code: exit.code });
    } finally {
      clearTimeout(limit);
    }
  };
}

function noSandbox(error: unknown): unknown {
  if (!isAmbitError(error)) return error;
  const why = error.message.replace(/^.*no sandbox can be had here: /, '');
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: `Git is run only in a sandbox, and no sandbox can be had here: ${why}`,
    hint: `${error.hint} "ambit doctor" shows what this machine can do. Without a sandbox, workspaces.<name>.isolation can be "copy" or "shared".`,
    cause: error,
  });
}

function environment(more: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const all = {
    HOME: '/nonexistent',
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: '/dev/null',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_NO_LAZY_FETCH: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_ALLOW_PROTOCOL: '',
    GIT_LITERAL_PATHSPECS: '1',
    // Names in the reflog, for which git would look into the account.
    GIT_COMMITTER_NAME: 'ambit',
    GIT_COMMITTER_EMAIL: 'ambit@localhost',
    ...more,
  };
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given);
}
