import { closeSync, constants, existsSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, isAbsolute, join, sep } from 'node:path';
import { isProgram, lookUp } from '../look-up.ts';
import { nothing, type Traced, together, trace } from './trace.ts';

export interface ServerFiles extends Traced {
  /** The program, by the name it is started under. */
  readonly program: string;
  /** Folders of programs that the sandbox's own PATH does not have. */
  readonly searched: readonly string[];
}

export interface Wanted {
  readonly command: string;
  readonly args: readonly string[];
  readonly searchPath: string | undefined;
  readonly hidden: readonly string[];
}

/** What a folder holds that is a package of its own. */
const packageMarks = ['package.json', 'pyproject.toml', 'deno.json', 'deno.jsonc'];
/** What the folder above a runtime's `bin` holds when all of it belongs to that runtime. */
const runtimeMarks = ['pyvenv.cfg', 'conda-meta', 'include/node'];
/** The same for a Python, which its own library tells; a user's packages alone lie in such a folder too. */
const pythonMark = (program: string): string => `lib/${basename(program)}/os.py`;
export const systemFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store', '/gnu/store'];

export const isInside = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === sep ? sep : folder + sep);

/** What a server needs to be seen to run at all: its program, the program's interpreter, its own file or package. */
export function serverFiles(wanted: Wanted): ServerFiles {
  const program = wanted.command.includes('/') ? named(wanted.command) : lookUp(wanted.command, wanted.searchPath);
  if (program === undefined) throw new Error(`There is no program "${wanted.command}" to start.`);
  const programs = [program, ...interpreters(program, wanted.searchPath)];
  const scripts = wanted.args.filter((arg) => isAbsolute(arg) && isFile(arg));
  const isPrivate = (folder: string) => isTooWide(folder, wanted.hidden);
  const { shown, links } = together([
    ...programs.flatMap((path) => runtimeOf(path, isPrivate)),
    ...[program, ...scripts.slice(0, 1)].flatMap((path) => packageOf(path, isPrivate, wanted.hidden)),
  ]);
  const searched = [...new Set(programs.map((path) => dirname(path)))].filter((folder) => !isSystem(folder));
  return {
    program,
    shown: shown.filter(({ inside }) => !isSystem(inside)),
    links: links.filter(({ inside }) => !isSystem(inside)),
    searched,
  };
}

/** What a runtime needs to be seen, beside the system. */
export function runtimeFiles(program: string, hidden: readonly string[]): Traced {
  return together(runtimeOf(program, (folder) => isTooWide(folder, hidden)));
}

/** The same for a program that is not this machine's: only the file it is given, with the package that belongs to it. */
export function scriptFiles({ command, args, hidden }: Omit<Wanted, 'searchPath'>): ServerFiles {
  const script = args.find((arg) => isAbsolute(arg) && isFile(arg));
  const isPrivate = (folder: string) => isTooWide(folder, hidden);
  const { shown, links } = together(script === undefined ? [] : packageOf(script, isPrivate, hidden));
  // No link can be made in somebody else's image: what it leads to is shown in its place.
  const instead = links.flatMap(({ inside }) => {
    const real = realpath(inside);
    return real === undefined ? [] : [{ real, inside }];
  });
  return { program: command, shown: [...shown, ...instead], links: [], searched: [] };
}

export function isSystem(path: string): boolean {
  return systemFolders.some((folder) => isInside(path, folder));
}

function named(path: string): string | undefined {
  return isAbsolute(path) && isProgram(path) ? path : undefined;
}

/** A home folder, whatever lies above one, and whatever holds something that is never shown. */
function isTooWide(folder: string, hidden: readonly string[]): boolean {
  const depth = folder.split(sep).filter((name) => name !== '').length;
  return depth < 2 || [...hidden, ...ownHome()].some((path) => isInside(path, folder));
}

/** An account need not have one. */
function ownHome(): string[] {
  try {
    const home = homedir();
    return [realpath(home) ?? home];
  } catch {
    return [];
  }
}

function runtimeOf(path: string, isPrivate: (folder: string) => boolean): Traced[] {
  const whole = [path, realpath(path) ?? path].flatMap((each) => {
    const prefix = dirname(dirname(each));
    const marks = [...runtimeMarks, pythonMark(each)];
    const isRuntime = basename(dirname(each)) === 'bin' && marks.some((mark) => existsSync(join(prefix, mark)));
    return isRuntime && !isPrivate(realpath(prefix) ?? prefix) ? [trace(prefix)] : [];
  });
  return [trace(path), ...whole];
}

/** The package a file belongs to, with the modules it finds by walking upwards. */
function packageOf(path: string, isPrivate: (folder: string) => boolean, hidden: readonly string[]): Traced[] {
  const real = realpath(path);
  if (real === undefined || isSystem(real)) return [];
  const names = real.split(sep);
  const holdsHidden = (depth: number) => hidden.some((each) => isInside(each, names.slice(0, depth).join(sep)));
  const modules = names.findIndex((name, index) => name === 'node_modules' && !holdsHidden(index + 1));
  if (modules !== -1) {
    const folder = names.slice(0, modules + 1).join(sep);
    return [trace(path), trace(folder), manifest(dirname(folder))];
  }
  const home = upwards(dirname(real)).find((folder) => packageMarks.some((mark) => isFile(join(folder, mark))));
  if (home === undefined) return [trace(path)];
  // Where the package is too much to be shown, the folder of the file may still be its own.
  const own = [home, dirname(real)].find((folder) => !isPrivate(folder));
  const installed = upwards(home).map((folder) => trace(join(folder, 'node_modules')));
  return [trace(path), own === undefined ? nothing : trace(own), manifest(home), ...installed];
}

/** It says which kind of modules the files beside it are. */
function manifest(folder: string): Traced {
  return trace(join(folder, 'package.json'));
}

function interpreters(program: string, searchPath: string | undefined): string[] {
  const [, path, argument] = /^#![ \t]*(\S+)(?:[ \t]+(?:-S[ \t]+)?(\S+))?/.exec(firstBytes(program)) ?? [];
  if (path === undefined) return [];
  const found = basename(path) === 'env' && argument !== undefined ? lookUp(argument, searchPath) : path;
  return found === undefined || !isAbsolute(found) ? [] : [found];
}

function firstBytes(path: string): string {
  const head = Buffer.alloc(256);
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return head.toString('latin1', 0, readSync(descriptor, head, 0, head.length, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return '';
  }
}

function upwards(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...upwards(above)];
}

function realpath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
