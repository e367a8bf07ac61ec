import { closeSync, constants, openSync, readSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, resolve } from 'node:path';
import { isProgram, lookUp } from '../common/look-up.ts';
import { type Gate, isInside, isLanguageRuntime, isSystem } from './what-may-be-shown.ts';

/** As much as the kernel reads. A line that does not end in it is none for the kernel either. */
const lineBytes = 256;
/** How programs begin that are no scripts. */
const binaries = ['7f454c46', 'cffaedfe', 'cafebabe'];

interface Asked {
  readonly program: string;
  readonly searchPath: string | undefined;
  /** What is shown of the program's own: its package, its environment. */
  readonly own: readonly string[];
  readonly gate: Gate;
}

export interface Interpreter {
  readonly path: string;
  /** Whether it is the operator who says where it lies, by PATH. */
  readonly isSearched: boolean;
}

/**
 * The interpreter that the first line of a program names. A stranger may have written the line, so it does not choose freely: a
 * name on PATH, a program of the system, Ambit's own Node, something of the package itself, or the runtime of a language.
 */
export function interpreterOf({ program, searchPath, own, gate }: Asked): Interpreter | undefined {
  const [, path, argument] = /^#![ \t]*(\S+)(?:[ \t]+(?:-S[ \t]+)?(\S+))?/.exec(firstLine(program)) ?? [];
  if (path === undefined || !isAbsolute(path)) return undefined;
  const isEnv = basename(path) === 'env' && isSystem(resolve(path)) && argument !== undefined;
  const named = isEnv ? searched(argument, searchPath) : resolve(path);
  if (named === undefined || !isProgram(named)) return undefined;
  const real = gate.follow(named)?.real;
  if (real === undefined || !gate.mayShowFile(real)) return undefined;
  const isSearched = isEnv || isOnPath(named, searchPath);
  const isOwn = (file: string) => own.some((folder) => isInside(file, folder));
  const isSeen = (file: string) => gate.isGranted(file) || isOwn(file);
  if (isSeen(real)) return isSearched || isSeen(named) ? found(named) : undefined;
  if (!isBinary(real)) return undefined;
  const ownNode = gate.follow(process.execPath)?.real;
  const mayName = isOwn(named) || gate.fetchedFolder(program) === undefined;
  if (isSearched || real === ownNode || (mayName && isLanguageRuntime(real))) return found(named);
  return undefined;

  function found(path: string): Interpreter {
    return { path, isSearched };
  }
}

function searched(name: string, searchPath: string | undefined): string | undefined {
  return name.includes('/') ? undefined : lookUp(name, searchPath);
}

function isOnPath(path: string, searchPath = ''): boolean {
  return searchPath.split(delimiter).some((folder) => isAbsolute(folder) && resolve(folder) === dirname(path));
}

/** Nothing where the line does not end in what is read. */
function firstLine(path: string): string {
  const head = firstBytes(path, lineBytes);
  const end = head.indexOf('\n');
  if (end === -1 && head.length === lineBytes) return '';
  return head.toString('utf8', 0, end === -1 ? head.length : end);
}

function isBinary(path: string): boolean {
  return binaries.includes(firstBytes(path, 4).toString('hex'));
}

function firstBytes(path: string, most: number): Buffer {
  const head = Buffer.alloc(most);
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return head.subarray(0, readSync(descriptor, head, 0, most, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return Buffer.alloc(0);
  }
}
