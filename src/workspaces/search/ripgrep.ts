import { closeSync, constants, openSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Glob } from '../../lib/text/glob.ts';
import { lookUpTool } from '../../sandbox/common/look-up.ts';
import { makePrivateFolder } from '../../sandbox/common/private-folder.ts';
import type { Limits } from '../../sandbox/limits/limits.ts';
import type { RunningProcess, SandboxRunner } from '../../sandbox/runner.ts';
import type { CandidateQuery } from '../backends/backend.ts';
import { readBounded } from '../read-bounded.ts';
import { createConcurrencyLimit } from './concurrency-limit.ts';
import { maxSearchedBytes } from './grep-file.ts';
import { excludeFile, ignoreFileName, repositoryName } from './ignore-rules.ts';

/** More than these are not worth telling. */
const maxTypeNames = 32;

/** All it finds is told by name, each followed by a NUL. It opens no ignore file of the tree and follows no link. */
const commonArguments = ['--no-config', '--null', '--color=never', '--no-follow', '--hidden', '--no-ignore'];

/**
 * ripgrep, in a sandbox that holds the workspace read-only and nothing else of the machine's files. It walks by paths,
 * so that whoever swaps a folder for a link meanwhile can lead it anywhere in there: it is only asked which files to
 * look at, and never what is in them.
 */
export interface Ripgrep {
  /** `folder` is the descriptor of the workspace; it may be closed once this has been called. */
  candidates(folder: number, query: CandidateQuery): Promise<readonly string[] | undefined>;
}

export interface RipgrepOptions {
  /** As this machine has them; only bwrap is used. */
  readonly sandboxes: readonly SandboxRunner[];
  /** The instance's folder, where the warden finds the folders of processes. */
  readonly tmpRoot: string;
  readonly find?: () => Promise<string | undefined>;
  readonly limitMs?: number;
}

const mountPath = '/workspace';
const homePath = '/search';
const rulesFile = 'rules';
/** Searches in one folder at a time; they share the limits below. */
const maxParallel = 8;
const maxOutputBytes = 64 << 20;
const maxErrorBytes = 1 << 20;
/** A machine without a sandbox is not asked for one with every search. */
const retryAfterMs = 60_000;
const limits: Limits = {
  memoryMb: 1024,
  pids: 64,
  cpus: availableParallelism(),
  fileMb: 1,
  openFiles: 1024,
  wallSeconds: 60,
};
/** Stands for the folder itself without opening it. */
const O_PATH = 0o10000000;
/** Folders in the instance's own, which several may share. */
let folderCount = 0;

export function createRipgrep(options: RipgrepOptions): Ripgrep {
  const { tmpRoot, limitMs = 6000 } = options;
  const sandbox = options.sandboxes.find(({ name }) => name === 'bwrap');
  const find = options.find ?? (() => findRipgrep(process.env['PATH']));
  let program: Promise<string | undefined> | undefined;
  let retryAt = 0;
  const limitPerFolder = createConcurrencyLimit(maxParallel);

  async function start(
    descriptor: number,
    real: string,
    args: readonly string[],
    rules = '',
  ): Promise<RunningProcess | undefined> {
    program ??= find();
    const command = await program;
    if (sandbox === undefined || command === undefined || performance.now() < retryAt) return undefined;
    try {
      await sandbox.probe();
    } catch {
      retryAt = performance.now() + retryAfterMs;
      return undefined;
    }
    const tmpDir = join(tmpRoot, `search-${process.pid}-${++folderCount}`);
    await makePrivateFolder(tmpDir);
    if (rules !== '') await writeFile(join(tmpDir, rulesFile), rules, { flag: 'wx', mode: 0o600 });
    return sandbox.start({
      command,
      args,
      env: {},
      cwd: tmpDir,
      tmpDir,
      owner: `search ${real}`,
      confinement: {
        home: { real: tmpDir, inside: homePath },
        // Rules are about what lies below the folder it starts in.
        workFolder: mountPath,
        readable: [{ real, inside: mountPath, descriptor }],
        writable: [],
        hidden: [],
        limits,
      },
    });
  }

  return {
    async candidates(folder, query) {
      const descriptor = openSync(`/proc/self/fd/${folder}`, O_PATH | constants.O_DIRECTORY);
      const { path, glob, rust, signal } = query;
      // The slash at its end: a pipe that has taken the place of the folder is not opened.
      const searched = path === '.' ? `${mountPath}/` : `${mountPath}/${path}/`;
      try {
        const real = readlinkSync(`/proc/self/fd/${descriptor}`);
        return await limitPerFolder(real, async () => {
          signal?.throwIfAborted();
          const until = performance.now() + limitMs;
          const listing = await start(descriptor, real, listArguments(searched));
          const ignoreFiles = listing && (await readOutputNames(listing, '', until, signal));
          if (ignoreFiles === undefined) return undefined;
          const rules = ((await query.readRules(ignoreFiles)) ?? []).map((line) => `${line}\n`).join('');
          const args = searchArguments(searched, glob, rules === '' ? undefined : `${homePath}/${rulesFile}`);
          const searching = await start(descriptor, real, args, rules);
          return searching && (await readOutputNames(searching, `${rust}\n`, until, signal));
        });
      } finally {
        closeSync(descriptor);
      }
    },
  };
}

/** Undefined where it did not come to an end by itself: then the files are read one by one. */
async function readOutputNames(
  running: RunningProcess,
  input: string,
  until: number,
  signal: AbortSignal | undefined,
): Promise<readonly string[] | undefined> {
  const stop = () => {
    running.stdout.destroy();
    void running.end();
  };
  const limit = setTimeout(stop, Math.max(0, until - performance.now()));
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  try {
    const errors = readBounded(running.stderr, maxErrorBytes, stop);
    running.stdin.on('error', () => {});
    running.stdin.end(input);
    const output = await readBounded(running.stdout, maxOutputBytes, stop);
    const { code } = await running.exited;
    signal?.throwIfAborted();
    const isComplete = code === 0 || code === 1 || (code === 2 && hasOnlyMissingFiles(await errors));
    return isComplete && output !== undefined ? parseNames(output) : undefined;
  } finally {
    clearTimeout(limit);
    signal?.removeEventListener('abort', stop);
  }
}

/** Whether all it complains of is what was gone, or no folder any more, when it came there. */
function hasOnlyMissingFiles(errors: Buffer | undefined): boolean {
  const lines = errors?.toString().split('\n') ?? [];
  const all = lines.filter((line) => line !== '');
  return all.length > 0 && all.every((line) => /\(os error (?:2|20|40)\)$/.test(line));
}

/** Names that are not UTF-8 come out as names that nobody has, and are not found again. */
function parseNames(output: Buffer): string[] {
  return output
    .toString()
    .split('\0')
    .flatMap((name) => (name.startsWith(`${mountPath}/`) ? [name.slice(mountPath.length + 1)] : []));
}

/**
 * The program that comes with the package of that name, which is the version that is tested; else the one on PATH. The
 * package is optional: not every platform has one.
 */
export async function findRipgrep(searchPath: string | undefined): Promise<string | undefined> {
  try {
    const { rgPath } = await import('@vscode/ripgrep');
    return rgPath;
  } catch {
    return lookUpTool('rg', searchPath);
  }
}

/** Names of regular files that say what is ignored. None is opened. */
function listArguments(folder: string): string[] {
  // The last that fits decides: of a repository only the one file is looked at.
  const wanted = [ignoreFileName, `!**/${repositoryName}/*`, `**/${repositoryName}/info`, `**/${excludeFile}`];
  return [...commonArguments, '--files', ...wanted.map((glob) => `--glob=${glob}`), '--', folder];
}

/**
 * Names of files with a match. The expression comes over stdin: arguments can be read by every user of the machine.
 * Nothing is read but the files themselves, and the rules that were written down for it: no configuration, no program.
 */
function searchArguments(folder: string, glob: Glob | undefined, rules: string | undefined): string[] {
  return [
    ...[...commonArguments, '--files-with-matches', '--no-mmap', `--glob=!${repositoryName}`],
    ...['--engine=default', '--no-pre', '--no-search-zip', '--no-multiline', '--no-crlf', '--case-sensitive'],
    ...(rules === undefined ? [] : [`--ignore-file=${rules}`]),
    ...[`--max-filesize=${maxSearchedBytes}`, ...typeArguments(glob), '--file=-', '--', folder],
  ];
}

/**
 * Only files that bear such names; what `--glob` names would be searched even where it is ignored. The glob itself is
 * judged later: this only saves the reading of files that cannot fit.
 */
function typeArguments(glob: Glob | undefined): string[] {
  // For ripgrep one character is one byte.
  const names = (glob?.names ?? []).map((name) => name.replace(/\?|\[[!^]?.[^\]]*\]/g, '*'));
  // A type says what is before a colon by itself.
  if (names.length === 0 || names.length > maxTypeNames || names.some((name) => /^\*+$|[:\\[\]]/.test(name))) return [];
  return [...names.map((name) => `--type-add=wanted:${name}`), '--type=wanted'];
}
