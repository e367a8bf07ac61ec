import { accessSync, closeSync, constants, openSync, readSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { AmbitError } from '../../../errors.ts';
import { findProgramOnPath } from '../../../sandbox/common/find-program.ts';

/** A reason why a command cannot be started, and what to do about it. Callers see no path of this machine. */
interface CommandProblem {
  readonly what: string;
  readonly hint: string;
}

/** The way to get programs that servers are often started with. */
const sources: Readonly<Record<string, string>> = {
  npx: 'Install Node.js, which includes it: https://nodejs.org',
  node: 'Install it: https://nodejs.org',
  bunx: 'Install Bun: https://bun.sh',
  bun: 'Install it: https://bun.sh',
  uvx: 'Install uv, which includes it: https://docs.astral.sh/uv',
  uv: 'Install it: https://docs.astral.sh/uv',
  python: 'Install Python, or write "python3" if that is its name here.',
  deno: 'Install it: https://deno.com',
};

/** Finds out why a command cannot be started; undefined where nothing is wrong with it. */
export function findCommandProblem(command: string, searchPath: string | undefined): CommandProblem | undefined {
  const name = basename(command);
  const path = command.includes('/') ? command : findProgramOnPath(command, searchPath);
  if (path === undefined) {
    return {
      what: `The command "${name}" was not found on the PATH.`,
      hint: sources[name] ?? 'Install it, or write its full path. The PATH is the one that Ambit was started with.',
    };
  }
  const found = readStats(path);
  if (found === 'missing') return { what: `The command "${name}" does not exist.`, hint: 'Correct its path.' };
  if (found === 'folder') {
    return { what: `The command "${name}" is a folder.`, hint: 'Use the path of a program in it.' };
  }
  if (!isExecutable(path)) {
    return {
      what: `The command "${name}" is not executable.`,
      hint: 'Make it executable (chmod +x), or start it with its interpreter: node, python3, sh.',
    };
  }
  return findInterpreterProblem(name, path);
}

function findInterpreterProblem(name: string, path: string): CommandProblem | undefined {
  const [, interpreter] = /^#![ \t]*([^ \t\n]+)/.exec(readStart(path)) ?? [];
  if (interpreter === undefined || readStats(interpreter) !== 'missing') return undefined;
  const missing = basename(interpreter.trimEnd());
  const hint = interpreter.endsWith('\r')
    ? 'Its first line ends with a carriage return: save the file with Unix line endings.'
    : 'Install the interpreter, or correct the first line of the file.';
  return { what: `The command "${name}" needs the interpreter "${missing}", which does not exist.`, hint };
}

function readStats(path: string): 'missing' | 'folder' | 'file' {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) return 'missing';
    return found.isDirectory() ? 'folder' : 'file';
  } catch {
    // It lies in a folder that may not be searched.
    return 'file';
  }
}

const startBytes = 256;

function readStart(path: string): string {
  let file: number | undefined;
  try {
    file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const start = Buffer.alloc(startBytes);
    return start.toString('utf8', 0, readSync(file, start));
  } catch {
    return '';
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Explains why a process could not be started. The error of the system, with its paths, stays the cause. */
export function startError(
  server: string,
  cause: unknown,
  command: string,
  searchPath: string | undefined,
): AmbitError {
  const { code = '', message = '' } = cause as NodeJS.ErrnoException;
  if (message.startsWith('The working directory')) return workingFolderError(server, cause);
  const problem = findProblem(code, command, searchPath);
  const why = problem?.what ?? (code === '' ? '' : `The system says ${code}.`);
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" could not be started.${why === '' ? '' : ` ${why}`}`,
    ...(problem === undefined ? {} : { hint: problem.hint }),
    cause,
  });
}

/** The error for a working directory that is missing and cannot be made. */
export function workingFolderError(server: string, cause: unknown): AmbitError {
  const { code = 'an error' } = cause as NodeJS.ErrnoException;
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" could not be started. Its working directory cannot be used (${code}).`,
    hint: 'Check that the folder of the workspace exists, and that Ambit may use it.',
    cause,
  });
}

function findProblem(code: string, command: string, searchPath: string | undefined): CommandProblem | undefined {
  if (code === 'ENOEXEC') {
    return {
      what: `The command "${basename(command)}" is not a program for this system.`,
      hint: 'A script needs a first line such as "#!/usr/bin/env node"; a program must be built for this machine.',
    };
  }
  if (code === 'EAGAIN' || code === 'ENOMEM' || code === 'EMFILE' || code === 'ENFILE') {
    return {
      what: `The machine cannot start another process (${code}).`,
      hint: 'End processes that are no longer needed, or raise the limits of the system (ulimit -u, ulimit -n).',
    };
  }
  return findCommandProblem(command, searchPath);
}
