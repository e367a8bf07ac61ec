import { spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { lookUp } from '../../runners/look-up.ts';

/** A git folder to work with, named outright: what a session wrote is never asked where the repository lies. */
export interface GitPlace {
  readonly gitDir: string;
  readonly workTree?: string;
  /** Where the objects lie, if not in the git folder. */
  readonly objects?: string;
  readonly index?: string;
}

export interface GitOptions {
  readonly input?: string;
  /** Ten minutes unless given. Less where a session may have put something in the way, such as a pipe. */
  readonly limitMs?: number;
}

/** Git said no, or is not there. What it says names paths of the host: for the log, not for agents. */
export class GitError extends Error {
  readonly missing: boolean;

  constructor(message: string, missing = false) {
    super(message);
    this.name = 'GitError';
    this.missing = missing;
  }
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
].flatMap(([key, value]) => ['-c', `${key}=${value}`]);

const timeLimitMs = 600_000;
const outputBytes = 256 * 1024 * 1024;

/**
 * Runs git without anybody's configuration but the repository's own, and of that without what could run something. Not
 * even the folder it is started in is one that a session can write.
 */
export async function runGit(place: GitPlace, args: readonly string[], options: GitOptions = {}): Promise<Buffer> {
  const git = lookUp('git', process.env['PATH']);
  if (git === undefined) throw new GitError('git is not installed', true);
  const { gitDir, workTree, objects, index } = place;
  const where = [`--git-dir=${gitDir}`, ...(workTree === undefined ? [] : [`--work-tree=${workTree}`])];
  const child = spawn(git, [...harmless, ...where, ...args], {
    cwd: '/',
    env: environment({ GIT_OBJECT_DIRECTORY: objects, GIT_INDEX_FILE: index }),
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: options.limitMs ?? timeLimitMs,
    killSignal: 'SIGKILL',
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  // One that has ended without reading all is told about by its exit.
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  let size = 0;
  child.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > outputBytes) child.kill('SIGKILL');
  });
  const [said, complaint, code] = await Promise.all([buffer(child.stdout), buffer(child.stderr), ended]);
  if (code === 0) return said;
  throw new GitError(`git ${args[0]}: ${complaint.toString('utf8').trim().slice(0, 2000) || `ended with ${code}`}`);
}

function environment(more: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const all = {
    PATH: process.env['PATH'] ?? '',
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
    // Names in the reflog, for which git would look into the account.
    GIT_COMMITTER_NAME: 'ambit',
    GIT_COMMITTER_EMAIL: 'ambit@localhost',
    ...more,
  };
  const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given);
}
