import { closeSync, constants, openSync, readlinkSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Glob } from '../../lib/text/glob.ts';
import { findTool } from '../../sandbox/common/find-program.ts';
import type { ResourceLimits } from '../../sandbox/limits/limits.ts';
import { ensurePrivateFolder, readBounded } from '../../sandbox/processes/supervise.ts';
import type { RunningProcess, SandboxRunner } from '../../sandbox/runner.ts';
import type { CandidateQuery } from '../backends/backend.ts';
import { maxSearchedBytes } from './grep.ts';
import { excludeFile, ignoreFileName, repositoryName } from './ignore-rules.ts';

/** Runs work, some at a time for each key, in order of arrival. */
type ConcurrencyLimit = <T>(key: string, work: () => Promise<T>) => Promise<T>;

/** More names would not save work. */
const maxTypeNames = 32;

/** Prints names followed by NUL. Opens no ignore file of the tree, and follows no link. */
const commonArguments = ['--no-config', '--null', '--color=never', '--no-follow', '--hidden', '--no-ignore'];

/**
 * Runs ripgrep in a sandbox that has the workspace read-only and no other files. It walks by paths, so a folder swapped
 * for a link can lead it anywhere in there. So it only finds candidate files, and content never comes from it.
 */
export interface Ripgrep {
  /** `folder` is the descriptor of the workspace; the caller may close it as soon as the call is made. */
  candidates(folder: number, query: CandidateQuery): Promise<readonly string[] | undefined>;
}

export interface RipgrepOptions {
  /** The sandboxes of this machine; only bwrap is used. */
  readonly sandboxes: readonly SandboxRunner[];
  /** The folder of the instance, where the reaper finds the folders of processes. */
  readonly tmpRoot: string;
  readonly find?: () => Promise<string | undefined>;
  readonly limitMs?: number;
}

const mountPath = '/workspace';
const homePath = '/search';
const rulesFile = 'rules';
/** The number of searches in one folder at a time; they share the limits below. */
const maxParallel = 8;
const maxOutputBytes = 64 << 20;
const maxErrorBytes = 1 << 20;
/** A missing sandbox is not probed again with every search. */
const retryAfterMs = 60_000;
const limits: ResourceLimits = {
  memoryMb: 1024,
  pids: 64,
  cpus: availableParallelism(),
  fileMb: 1,
  openFiles: 1024,
  wallSeconds: 60,
};
/** Opens a handle to the folder without opening it for reading. */
const O_PATH = 0o10000000;
/** Numbers the temporary folders in the folder of the instance. */
let folderCount = 0;

export function createRipgrep(options: RipgrepOptions): Ripgrep {
  const { tmpRoot, limitMs = 6000 } = options;
  const sandbox = options.sandboxes.find(({ name }) => name === 'bwrap');
  const find = options.find ?? (() => findRipgrep(process.env['PATH']));
  let program: Promise<string | undefined> | undefined;
  let retryAt = 0;
  const limitPerFolder = createLimitPerKey(maxParallel);

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
    await ensurePrivateFolder(tmpDir);
    if (rules !== '') await writeFile(join(tmpDir, rulesFile), rules, { flag: 'wx', mode: 0o600 });
    return sandbox.start({
      command,
      args,
      env: {},
      cwd: tmpDir,
      tmpDir,
      owner: `search ${real}`,
      confinement: {
        home: { source: tmpDir, target: homePath },
        // Ignore rules apply below the working folder.
        workFolder: mountPath,
        readable: [{ source: real, target: mountPath, descriptor }],
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
      // The slash keeps ripgrep from opening a pipe in place of the folder.
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

/** Returns undefined when ripgrep did not finish: then the files are read one by one. */
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

/** Tells whether all errors are about entries that were removed or replaced meanwhile. */
function hasOnlyMissingFiles(errors: Buffer | undefined): boolean {
  const lines = errors?.toString().split('\n') ?? [];
  const all = lines.filter((line) => line !== '');
  return all.length > 0 && all.every((line) => /\(os error (?:2|20|40)\)$/.test(line));
}

/** Parses the names. Those that are not UTF-8 match no file and are skipped later. */
function parseNames(output: Buffer): string[] {
  return output
    .toString()
    .split('\0')
    .flatMap((name) => (name.startsWith(`${mountPath}/`) ? [name.slice(mountPath.length + 1)] : []));
}

/**
 * Finds the program of the npm package, which is the tested version, else the one on PATH. The package is optional: not
 * every platform has one.
 */
export async function findRipgrep(searchPath: string | undefined): Promise<string | undefined> {
  try {
    const { rgPath } = await import('@vscode/ripgrep');
    return rgPath;
  } catch {
    return findTool('rg', searchPath);
  }
}

/** Arguments that list ignore files. None is opened. */
function listArguments(folder: string): string[] {
  // The last matching glob decides: in a repository only the one file is listed.
  const wanted = [ignoreFileName, `!**/${repositoryName}/*`, `**/${repositoryName}/info`, `**/${excludeFile}`];
  return [...commonArguments, '--files', ...wanted.map((glob) => `--glob=${glob}`), '--', folder];
}

/**
 * Arguments that list files with a match. The expression comes over stdin, since every user of the machine can read
 * arguments. ripgrep reads only the files and the rules written for it: no configuration, no program.
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
 * Selects files by name with a type, since `--glob` would also search ignored files. The glob itself is matched later:
 * this only saves reading.
 */
function typeArguments(glob: Glob | undefined): string[] {
  // In ripgrep one character is one byte.
  const names = (glob?.names ?? []).map((name) => name.replace(/\?|\[[!^]?.[^\]]*\]/g, '*'));
  // A type definition contains a colon.
  if (names.length === 0 || names.length > maxTypeNames || names.some((name) => /^\*+$|[:\\[\]]/.test(name))) return [];
  return [...names.map((name) => `--type-add=wanted:${name}`), '--type=wanted'];
}

/** Creates a limit of `maxParallel` works at a time for each key. */
export function createLimitPerKey(maxParallel: number): ConcurrencyLimit {
  const busy = new Map<string, { active: number; readonly waiting: (() => void)[] }>();
  return async (key, work) => {
    const slots = busy.get(key) ?? { active: 0, waiting: [] };
    busy.set(key, slots);
    if (slots.active < maxParallel) slots.active++;
    // A finished work passes its slot on.
    else await new Promise<void>((accept) => slots.waiting.push(accept));
    try {
      return await work();
    } finally {
      const next = slots.waiting.shift();
      if (next !== undefined) next();
      else if (--slots.active === 0) busy.delete(key);
    }
  };
}
