import { lstatSync, realpathSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Confinement, Mount } from '../../../sandbox/common/confinement.ts';
import { findTool } from '../../../sandbox/common/find-program.ts';
import { extractSandboxProblem } from '../../../sandbox/common/sandbox-errors.ts';
import type { ResourceLimits } from '../../../sandbox/limits/limits.ts';
import { ensurePrivateFolder, readBounded } from '../../../sandbox/processes/supervise.ts';
import type { RunningProcess, SandboxRunner } from '../../../sandbox/runner.ts';

/** Git failed or is not installed. The message has paths of the host: it is for the log, not for agents. */
export class GitError extends Error {
  readonly missing: boolean;
  /** The exit code; undefined where git did not exit by itself. */
  readonly code: number | undefined;

  constructor(
    message: string,
    more: { readonly missing?: boolean; readonly code?: number; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'GitError';
    this.missing = more.missing === true;
    this.code = more.code;
  }
}

/**
 * The git folder to work with. It is given explicitly, since a session could have written a pointer to another one. Git
 * sees these folders and no other files of the machine.
 */
export interface GitPaths {
  readonly gitDir: string;
  /** The git folder of the repository, where `gitDir` is that of one of its worktrees. */
  readonly commonDir?: string;
  readonly workTree?: string;
  /** The folder of the objects, if not in the git folder. */
  readonly objects?: string;
  readonly index?: string;
}

/** The files that git sees beside its own folders, and those it may write. */
interface GitAccess {
  readonly writes?: readonly string[] | undefined;
  /** The only files and folders of the work tree that git sees; all unless given. */
  readonly parts?: readonly string[] | undefined;
}

const limits: ResourceLimits = {
  memoryMb: 4096,
  pids: 256,
  cpus: availableParallelism(),
  fileMb: 65_536,
  openFiles: 4096,
  wallSeconds: 900,
};

/** Files by which a repository says what to run. Git has no reason to write them when Ambit runs it. */
const protectedNames = ['config', 'config.worktree', 'hooks', 'info'];
const mountAt = (path: string): Mount => ({ source: path, target: path });

interface GitOptions extends GitAccess {
  readonly input?: string;
  /** Ten minutes unless given. Less where a session could block git, for instance with a pipe. */
  readonly timeoutMs?: number;
}

/** Runs git in a sandbox and returns its output. */
export type RunGit = (paths: GitPaths, args: readonly string[], options?: GitOptions) => Promise<Buffer>;

export interface GitRunnerOptions {
  /** The sandbox of this machine; rejects where there is none. */
  readonly sandbox: () => Promise<SandboxRunner>;
  /** The folder of this instance, where the reaper finds the folders of processes. */
  readonly tmpRoot: string;
}

/** Overrides every setting of a repository that would run a program, fetch something, or read more than needed. */
const safeConfig = [
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
  // It would set permission bits that the sandbox refuses.
  ['core.sharedRepository', 'umask'],
].flatMap(([key, value]) => ['-c', `${key}=${value}`]);

const defaultTimeoutMs = 600_000;
const maxOutputBytes = 256 * 1024 * 1024;
const maxErrorBytes = 1024 * 1024;
/** Numbers the temporary folders of this process. */
let folderCount = 0;

/**
 * Creates a function that runs git with no configuration but the repository's own, without the settings that could run
 * programs. Git runs in a sandbox with the given folders: a link, a pointer or a program in there cannot reach anything
 * outside.
 */
export function createGitRunner({ sandbox, tmpRoot }: GitRunnerOptions): RunGit {
  async function start(paths: GitPaths, args: readonly string[], access: GitAccess): Promise<RunningProcess> {
    const command = findTool('git', process.env['PATH']);
    if (command === undefined) throw new GitError('git is not installed', { missing: true });
    const runner = await sandbox().catch((error: unknown) => {
      throw noSandboxError(error);
    });
    const tmpDir = join(realpathSync.native(tmpRoot), `git-${process.pid}-${++folderCount}`);
    await ensurePrivateFolder(tmpDir);
    const where = [
      `--git-dir=${paths.gitDir}`,
      ...(paths.workTree === undefined ? [] : [`--work-tree=${paths.workTree}`]),
    ];
    try {
      return await runner.start({
        command,
        args: [...safeConfig, ...where, ...args],
        env: createEnvironment({ GIT_OBJECT_DIRECTORY: paths.objects, GIT_INDEX_FILE: paths.index }),
        cwd: tmpDir,
        tmpDir,
        confinement: createConfinement(paths, access, tmpDir),
      });
    } catch (error) {
      throw isAmbitError(error) ? noSandboxError(error) : new GitError(`git ${args[0]}: ${error}`, { cause: error });
    }
  }

  return async (paths, args, options = {}) => {
    const running = await start(paths, args, options);
    let isStopped = false;
    const stop = () => {
      isStopped = true;
      running.stdout.destroy();
      void running.end();
    };
    const limit = setTimeout(stop, options.timeoutMs ?? defaultTimeoutMs);
    // A process that exits without reading its input is reported by its exit code.
    running.stdin.on('error', () => {});
    running.stdin.end(options.input ?? '');
    try {
      const [said, complaint, exit] = await Promise.all([
        readBounded(running.stdout, maxOutputBytes, stop),
        readBounded(running.stderr, maxErrorBytes, stop),
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

function noSandboxError(error: unknown): unknown {
  if (!isAmbitError(error)) return error;
  const why = extractSandboxProblem(error);
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: `Git runs only in a sandbox, and no sandbox is available: ${why}`,
    hint: `${error.hint} "ambit doctor" shows what this machine can do. Without a sandbox, workspaces.<name>.isolation can be "copy" or "shared".`,
    cause: error,
  });
}

function createEnvironment(more: Readonly<Record<string, string | undefined>>): Record<string, string> {
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
    // Names for the reflog. Without them, git would read the account.
    GIT_COMMITTER_NAME: 'ambit',
    GIT_COMMITTER_EMAIL: 'ambit@localhost',
    ...more,
  };
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given);
}

/** The sandbox of git. Paths are the same inside, since git records the paths of worktrees and repositories. */
function createConfinement(paths: GitPaths, { writes = [], parts }: GitAccess, tmpDir: string): Confinement {
  const { gitDir, commonDir, workTree, objects, index } = paths;
  const named = [
    gitDir,
    commonDir,
    objects,
    index === undefined ? undefined : dirname(index),
    ...(parts ?? [workTree]),
  ];
  const seen = [...new Set(named.filter((path) => path !== undefined))];
  return {
    home: mountAt(tmpDir),
    readable: seen.filter((path) => !writes.includes(path)).map(mountAt),
    writable: writes.map(mountAt),
    frozen: writes.flatMap((path) => (path === gitDir || path === commonDir ? findProtected(path) : [])).map(mountAt),
    hidden: [],
    limits,
  };
}

function findProtected(folder: string): string[] {
  return protectedNames
    .map((name) => join(folder, name))
    .filter((path) => {
      const stats = lstatSync(path, { throwIfNoEntry: false });
      return stats?.isFile() === true || stats?.isDirectory() === true;
    });
}
