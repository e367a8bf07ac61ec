import { closeSync, constants, existsSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Mount } from './confinement.ts';
import { findProgramOnPath, isProgram, withoutForeignFolders } from './find-program.ts';
import {
  createFilter,
  findPythonLibraries,
  isInside,
  isLanguageRuntime,
  isSystemPath,
  listAncestors,
  listNames,
  mergePaths,
  noPaths,
  packageMarks,
  type ResolvedVisiblePath,
  type VisibilityFilter,
  type VisibilityRules,
  type VisiblePaths,
} from './visibility-filter.ts';

/** The number of bytes that the kernel reads. It takes a longer line for none. */
const maxLineBytes = 256;

/** The first bytes of programs that are no scripts. */
const binaryMagics = ['7f454c46', 'cffaedfe', 'cafebabe'];

interface InterpreterQuery {
  readonly program: string;
  readonly searchPath: string | undefined;
  /** The visible files of the program itself: its package, its environment. */
  readonly own: readonly string[];
  readonly filter: VisibilityFilter;
}

interface Interpreter {
  readonly path: string;
  /** Whether the operator chose its folder by PATH. */
  readonly isSearched: boolean;
}

export interface ServerFiles extends VisiblePaths {
  /** The program, by the name under which it is started. */
  readonly program: string;
  /** Folders of programs that are not on the sandbox's own PATH. */
  readonly searched: readonly string[];
  /** A program with its arguments that starts the program. */
  readonly before?: readonly string[];
}

interface ServerFilesRequest extends VisibilityRules {
  readonly command: string;
  readonly args: readonly string[];
  readonly searchPath: string | undefined;
}

/** Entries beside `bin` that show that the whole folder belongs to a runtime. */
const runtimeMarks = ['pyvenv.cfg', 'conda-meta', 'include/node'];

/**
 * Finds the files a server needs to run at all: its program, the program's interpreter, its own file or package. The
 * operator names the program and the file. Everything else follows from files that a stranger may have made, so the
 * filter decides.
 */
export function serverFiles(wanted: ServerFilesRequest): ServerFiles {
  const { command } = wanted;
  const filter = createFilter(wanted);
  const searchPath = withoutForeignFolders(wanted.searchPath ?? '', filter.isGranted);
  const named = isAbsolute(command) && isProgram(command) ? command : undefined;
  const program = command.includes('/') ? named : findProgramOnPath(command, searchPath);
  if (program === undefined) throw new Error(`The program "${command}" was not found.`);
  const script = findScript(wanted.args);
  const ofProgram = [...findRuntimeFolders(program, filter), ...findPackageFiles(program, filter)];
  const own = mergePaths(ofProgram).mounts.map(({ source }) => source);
  const interpreter = findInterpreter({ program, searchPath, own, filter });
  const { mounts, links } = mergePaths([
    ...ofProgram,
    ...(interpreter === undefined ? [] : findInterpreterFiles(interpreter, filter)),
    ...(script === undefined ? [] : findPackageFiles(script, filter)),
  ]);
  const folders = [program, ...(interpreter === undefined ? [] : [interpreter.path])].map((path) => dirname(path));
  return {
    program,
    mounts: mounts.filter(({ target }) => !isSystemPath(target)),
    links: links.filter(({ inside }) => !isSystemPath(inside)),
    searched: [...new Set(folders)].filter((folder) => !isSystemPath(folder)),
  };
}

/** Finds the files a runtime needs beside the system. */
export function runtimeFiles(program: string, hidden: readonly string[]): VisiblePaths {
  const filter = createFilter({ hidden });
  return mergePaths([filter.resolvePath(program) ?? noPaths, ...findRuntimeFolders(program, filter)]);
}

/** Finds the files of a server in a container image: only the script it is given, with the package of the script. */
export function scriptFiles({ command, args, ...rules }: Omit<ServerFilesRequest, 'searchPath'>): ServerFiles {
  const script = findScript(args);
  const { mounts: all, links } = mergePaths(script === undefined ? [] : findPackageFiles(script, createFilter(rules)));
  const mounts = all.filter(({ source }) => !isSystemPath(source));
  // No link can be made in somebody else's image, so its target is mounted under the name of the link.
  const instead = links.flatMap(({ inside }) => {
    const target = resolveRealPath(inside);
    return target === undefined ? [] : mounts.flatMap((each) => mountBehindLink(each, inside, target));
  });
  return { program: command, mounts: [...mounts, ...instead], links: [], searched: [] };
}

function mountBehindLink({ source }: Mount, link: string, target: string): Mount[] {
  if (isInside(target, source)) return [{ source: target, target: link }];
  return isInside(source, target) ? [{ source: source, target: link + source.slice(target.length) }] : [];
}

function findScript(args: readonly string[]): string | undefined {
  return args.find((arg) => isAbsolute(arg) && isFile(arg));
}

/** Resolves a path that the operator names. It is shown, or the server does not start. */
function resolveNamed(path: string, filter: VisibilityFilter): ResolvedVisiblePath {
  const followed = filter.resolvePath(path);
  if (followed !== undefined && filter.canShowFile(followed.real)) return followed;
  const why =
    followed === undefined
      ? 'its path leads through a symbolic link that sessions can change, or that leaves its project'
      : 'it belongs to Ambit itself, or is not a file';
  throw new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `The server's file "${basename(path)}" is not visible in its sandbox: ${why}.`,
    hint: 'The operator can use the real path without the link, or add it to servers.<name>.sandbox.readable.',
  });
}

/** Finds the folder of a runtime, by the given path and by its real path. */
function findRuntimeFolders(path: string, filter: VisibilityFilter): VisiblePaths[] {
  return [path, resolveRealPath(path) ?? path].flatMap((each) => {
    const prefix = dirname(dirname(each));
    const libraries = findPythonLibraries(each);
    const isMarked = libraries.length > 0 || runtimeMarks.some((mark) => existsSync(join(prefix, mark)));
    if (basename(dirname(each)) !== 'bin' || !isMarked) return [];
    const followed = filter.resolvePath(prefix);
    if (followed !== undefined && filter.canShowFolder(followed.real)) return [followed];
    return libraries.flatMap((library) => findLibraryFiles(library, filter));
  });
}

/**
 * Finds a Python's own library where its prefix holds more than that Python, such as a home folder. Its shared libraries
 * lie beside it.
 */
function findLibraryFiles(library: string, filter: VisibilityFilter): VisiblePaths[] {
  const folder = filter.resolvePath(library);
  if (folder === undefined || !filter.canShowModules(folder.real)) return [];
  const beside = dirname(library);
  const shared = listNames(beside).filter((name) =>
    /^lib(?:python|pypy)[0-9.]*\S*\.(?:so|dylib)(?:\.[0-9.]+)?$/.test(name),
  );
  const files = shared.flatMap((name) => filter.resolvePath(join(beside, name)) ?? []);
  return [folder, ...files.filter(({ real }) => filter.canShowFile(real))];
}

function findInterpreterFiles({ path, isSearched }: Interpreter, filter: VisibilityFilter): VisiblePaths[] {
  const followed = filter.resolvePath(path);
  if (followed === undefined) return [];
  const whole = isSearched ? path : isLanguageRuntime(followed.real) ? followed.real : undefined;
  return [followed, ...(whole === undefined ? [] : findRuntimeFolders(whole, filter))];
}

/** Finds a file that the operator names and its package, with the modules in the folders above. */
function findPackageFiles(path: string, filter: VisibilityFilter): VisiblePaths[] {
  const file = resolveNamed(path, filter);
  const { real } = file;
  if (isSystemPath(real) || isLanguageRuntime(real)) return [file];
  const names = real.split(sep);
  const modules = names
    .flatMap((name, index) => (name === 'node_modules' ? [names.slice(0, index + 1).join(sep)] : []))
    .find(filter.canShowModules);
  if (modules !== undefined) return [file, showPath(modules), findManifest(dirname(modules), filter)];
  const fetched = filter.fetchedFolder(real);
  const above = listAncestors(dirname(real)).filter((folder) => fetched === undefined || isInside(folder, fetched));
  const home = above.find((folder) => packageMarks.some((mark) => isFile(join(folder, mark))));
  if (home === undefined) return [file];
  // If the package is too wide to be shown, the folder of the file may still be its own.
  const own = [home, dirname(real)].find(filter.canShowFolder);
  const installed = above.filter((folder) => isInside(home, folder)).map((folder) => join(folder, 'node_modules'));
  return [
    file,
    own === undefined ? noPaths : showPath(own),
    findManifest(home, filter),
    ...installed.filter(filter.canShowModules).map(showPath),
  ];
}

/** The manifest says which kind of modules the files beside it are. */
function findManifest(folder: string, filter: VisibilityFilter): VisiblePaths {
  const path = join(folder, 'package.json');
  return filter.canShowFile(path) ? showPath(path) : noPaths;
}

const showPath = (real: string): VisiblePaths => ({ mounts: [{ source: real, target: real }], links: [] });

function resolveRealPath(path: string): string | undefined {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/**
 * Finds the interpreter in the first line of a program. A stranger may have written the line, so only these are
 * accepted: a name on PATH, a program of the system, Ambit's own Node, something of the package itself, or the runtime
 * of a language.
 */
function findInterpreter({ program, searchPath, own, filter }: InterpreterQuery): Interpreter | undefined {
  const [, path, argument] = /^#![ \t]*(\S+)(?:[ \t]+(?:-S[ \t]+)?(\S+))?/.exec(readFirstLine(program)) ?? [];
  if (path === undefined || !isAbsolute(path)) return undefined;
  const isEnv = basename(path) === 'env' && isSystemPath(resolve(path)) && argument !== undefined;
  const named = isEnv ? findOnPath(argument, searchPath) : resolve(path);
  if (named === undefined || !isProgram(named)) return undefined;
  const real = filter.resolvePath(named)?.real;
  if (real === undefined || !filter.canShowFile(real)) return undefined;
  const isSearched = isEnv || isOnPath(named, searchPath);
  const isOwn = (file: string) => own.some((folder) => isInside(file, folder));
  const isSeen = (file: string) => filter.isGranted(file) || isOwn(file);
  const found: Interpreter = { path: named, isSearched };
  if (isSeen(real)) return isSearched || isSeen(named) ? found : undefined;
  if (!isBinary(real)) return undefined;
  const ownNode = filter.resolvePath(process.execPath)?.real;
  const mayName = isOwn(named) || filter.fetchedFolder(program) === undefined;
  return isSearched || real === ownNode || (mayName && isLanguageRuntime(real)) ? found : undefined;
}

function findOnPath(name: string, searchPath: string | undefined): string | undefined {
  return name.includes('/') ? undefined : findProgramOnPath(name, searchPath);
}

function isOnPath(path: string, searchPath = ''): boolean {
  return searchPath.split(delimiter).some((folder) => isAbsolute(folder) && resolve(folder) === dirname(path));
}

/** Empty when the line is longer than what is read. */
function readFirstLine(path: string): string {
  const head = readFirstBytes(path, maxLineBytes);
  const end = head.indexOf('\n');
  if (end === -1 && head.length === maxLineBytes) return '';
  return head.toString('utf8', 0, end === -1 ? head.length : end);
}

function isBinary(path: string): boolean {
  return binaryMagics.includes(readFirstBytes(path, 4).toString('hex'));
}

function readFirstBytes(path: string, maxBytes: number): Buffer {
  const head = Buffer.alloc(maxBytes);
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return head.subarray(0, readSync(descriptor, head, 0, maxBytes, 0));
    } finally {
      closeSync(descriptor);
    }
  } catch {
    return Buffer.alloc(0);
  }
}
