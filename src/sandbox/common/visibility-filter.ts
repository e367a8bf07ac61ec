import { existsSync, lstatSync, readdirSync, readlinkSync, realpathSync } from 'node:fs';
import { homedir, userInfo } from 'node:os';
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import type { Confinement, Mount } from './confinement.ts';
import { findProgramOnPath, isProgram } from './find-program.ts';

/** A link on a visible path. It is made again inside, so that paths mean the same there. */
export interface LinkCopy {
  readonly inside: string;
  readonly target: string;
}

export interface VisiblePaths {
  readonly mounts: readonly Mount[];
  readonly links: readonly LinkCopy[];
}

const maxLinks = 40;

export const noPaths: VisiblePaths = { mounts: [], links: [] };

/** Decides which of a server's own files are shown. All paths are real paths. */
export interface VisibilityRules {
  /** Paths that are never shown as part of a server's own files. */
  readonly hidden: readonly string[];
  /** Folders that sessions may write, this one or others. A link in them adds nothing to what is shown. */
  readonly open?: readonly string[];
  /** Paths that are shown anyway. */
  readonly granted?: readonly string[];
  /** The folder of fetched packages. A package is shown from there although the folder is hidden. */
  readonly packages?: string | undefined;
}

/** Checks every path that is shown as part of a server's own files. All methods but `resolvePath` take real paths. */
export interface VisibilityFilter {
  /** Whether a whole folder may be shown: it is not too wide, and nothing in it or around it is hidden. */
  canShowFolder(folder: string): boolean;
  /** Whether a folder of modules may be shown, which may lie anywhere. */
  canShowModules(folder: string): boolean;
  canShowFile(file: string): boolean;
  /** Resolves a path, unless a link on it may not be followed. Says nothing about what is found there. */
  resolvePath(path: string): ResolvedVisiblePath | undefined;
  isGranted(path: string): boolean;
  /** The folder of a fetched package; undefined for a path in none. */
  fetchedFolder(path: string): string | undefined;
}

export interface ResolvedVisiblePath extends VisiblePaths {
  readonly real: string;
}

export const systemFolders = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store', '/gnu/store'];
/** Files that mark a folder as a package of its own. */
export const packageMarks = ['package.json', 'pyproject.toml', 'deno.json', 'deno.jsonc'];
const projectMarks = [...packageMarks, '.git'];
const modulesFolder = 'node_modules';

export const isInside = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === sep ? sep : folder + sep);

export function isSystemPath(path: string): boolean {
  return systemFolders.some((folder) => isInside(path, folder));
}

export function visibilityRulesOf(confinement: Confinement): VisibilityRules {
  const { home, volume, writable, readable, hidden, open = [], packages } = confinement;
  const mounts = [...(volume === undefined ? [home] : []), ...writable, ...readable];
  return {
    hidden,
    open: [...[home, ...writable].map(({ source }) => source), ...open],
    granted: mounts.map(({ source }) => source),
    packages,
  };
}

export function createFilter({ hidden, open = [], granted = [], packages }: VisibilityRules): VisibilityFilter {
  const isGranted = (path: string) => isSystemPath(path) || granted.some((folder) => isInside(path, folder));
  const isIn = (path: string, folders: readonly string[]) => folders.some((folder) => isInside(path, folder));
  const fetchedFolder = (path: string) => (packages === undefined ? undefined : packageFolderOf(path, packages));
  const isExempt = (path: string) => isGranted(path) || fetchedFolder(path) !== undefined;
  const isHidden = (path: string) => !isExempt(path) && isIn(path, hidden);
  const holdsHidden = (folder: string) => hidden.some((path) => isInside(path, folder));
  const mayShowModules = (folder: string) => isFolder(folder) && !holdsHidden(folder) && !isHidden(folder);
  // The operator may name a file of another workspace: then the file is shown, and nothing around it.
  const kept = hidden.filter((path) => !open.includes(path));

  function mayFollow(link: string, real: string): boolean {
    if (isGranted(real)) return true;
    if (fetchedFolder(link) === undefined && isIn(link, [...open, ...hidden])) return false;
    if (isSystemPath(link) || isLanguageRuntime(real)) return true;
    const project = findProject(dirname(link)) ?? findSettingsFolder(real);
    return project === undefined || isInside(real, project) === isInside(link, project);
  }

  return {
    canShowFolder: (folder) => mayShowModules(folder) && !isTooWide(folder),
    canShowModules: mayShowModules,
    canShowFile: (file) => isOrdinaryFile(file) && (isExempt(file) || !isIn(file, kept)),
    resolvePath(path) {
      const traced = tracePath(path);
      const real = traced.mounts[0]?.source;
      if (real === undefined || !traced.links.every(({ inside }) => mayFollow(inside, real))) return undefined;
      return { ...traced, real };
    },
    isGranted,
    fetchedFolder,
  };
}

/** Whether a program is a language runtime, as nvm, uv, conda or Homebrew install it. */
export function isLanguageRuntime(program: string): boolean {
  if (basename(dirname(program)) !== 'bin' || !isOrdinaryFile(program)) return false;
  const prefix = dirname(dirname(program));
  const isNode = basename(program) === 'node' && existsSync(join(prefix, 'include/node'));
  return isNode || findPythonLibraries(program).length > 0;
}

const pythonProgram = /^(?:python|pypy)[0-9.]*[td]?$/;
const pythonLibrary = /^(?:python|pypy)3(?:\.[0-9]+)?t?$/;

/**
 * Finds the folders of a Python's own library, beside the folder of the program. A user's packages alone lie in such a
 * folder too, but without `os.py`.
 */
export function findPythonLibraries(program: string): string[] {
  if (!pythonProgram.test(basename(program)) || basename(dirname(program)) !== 'bin') return [];
  return ['lib', 'lib64'].flatMap((name) => {
    const folder = join(dirname(dirname(program)), name);
    const names = listNames(folder).filter((each) => pythonLibrary.test(each));
    return names.map((each) => join(folder, each)).filter((each) => existsSync(join(each, 'os.py')));
  });
}

/** Lists the names in a folder; none where it cannot be read. */
export function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Whether the path is a file, and not a link to one. */
function isOrdinaryFile(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

export function listAncestors(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...listAncestors(above)];
}

function isFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** The folder of the last fetch of a package, in the folder of the package. */
function packageFolderOf(path: string, packages: string): string | undefined {
  if (!isInside(path, packages)) return undefined;
  const [home, content] = path.slice(packages.length + 1).split(sep);
  return home && content ? join(packages, home, content) : undefined;
}

/** Finds the project of a folder. The author of a project made its links, and may be a stranger. */
function findProject(folder: string): string | undefined {
  const names = folder.split(sep);
  const modules = names.indexOf(modulesFolder);
  const start = modules === -1 ? folder : names.slice(0, modules).join(sep) || sep;
  const marked = listAncestors(start).find(
    (each) => !isTooWide(each) && projectMarks.some((mark) => existsSync(join(each, mark))),
  );
  return marked ?? (modules === -1 ? undefined : names.slice(0, modules + 1).join(sep));
}

/** Finds the settings folder in a home folder, such as `.ssh`, that holds a file. Programs are no settings. */
function findSettingsFolder(file: string): string | undefined {
  if (isProgram(file) || file.split(sep).includes(modulesFolder)) return undefined;
  return listHomes().flatMap((home) => {
    const name = isInside(file, home) ? file.slice(home.length + 1).split(sep)[0] : undefined;
    return name?.startsWith('.') ? [join(home, name)] : [];
  })[0];
}

/** Whether a folder is a home folder, lies above one, or holds the programs and data of all applications of a user. */
function isTooWide(folder: string): boolean {
  const depth = folder.split(sep).filter((name) => name !== '').length;
  if (depth < 2 || /^\/(?:home|Users)\/[^/]+(?:\/\.local)?$/.test(folder)) return true;
  return listHomes().some((home) => isInside(home, folder) || folder === join(home, '.local'));
}

/** Lists the home folders; an account need not have one. */
function listHomes(): string[] {
  return [homedir, () => userInfo().homedir].flatMap((find) => {
    try {
      return [realpathSync.native(find())];
    } catch {
      return [];
    }
  });
}

/** Resolves a path and lists each link on it; nothing when it leads nowhere. */
function tracePath(path: string): VisiblePaths {
  const links: LinkCopy[] = [];
  let real = '';
  let rest = path.split(sep).filter((name) => name !== '');
  for (let name = rest.shift(); name !== undefined; name = rest.shift()) {
    const next = `${real}/${name}`;
    const found = lstatSync(next, { throwIfNoEntry: false });
    if (found === undefined || links.length > maxLinks) return noPaths;
    if (!found.isSymbolicLink()) {
      real = next;
      continue;
    }
    const target = readlinkSync(next);
    links.push({ inside: next, target });
    rest = [
      ...resolve(dirname(next), target)
        .split(sep)
        .filter((each) => each !== ''),
      ...rest,
    ];
    real = '';
  }
  return { mounts: [{ source: real, target: real }], links };
}

export function mergePaths(all: readonly VisiblePaths[]): VisiblePaths {
  return { mounts: all.flatMap(({ mounts }) => mounts), links: all.flatMap(({ links }) => links) };
}

/** Files of settings or credentials below the prefix of a language or a package manager. */
const pathsBelowPrefix = [
  // npm's own folder.
  'npmrc',
  'etc/npmrc',
  'lib/node_modules/npm/npmrc',
  'share/nodejs/npm/npmrc',
  'etc/yarnrc',
  'etc/.yarnrc',
  'share/.yarnrc',
  'pip.conf',
  'etc/pip.conf',
  'etc/gitconfig',
  'etc/gemrc',
  'etc/netrc',
  'etc/.netrc',
  'cargo/config',
  'cargo/config.toml',
  'cargo/credentials',
  'cargo/credentials.toml',
];
/** Variables that name such a file. */
const fileVariables =
  /^(?:npm_config_(?:globalconfig|userconfig)|pip_config_file|netrc|git_config_(?:global|system))$/i;
/** Variables that name a folder with such files. */
const prefixVariables = /^(?:npm_config_prefix|prefix)$/i;

/**
 * Finds settings of the whole machine that may hold credentials, by their real paths. They lie in folders that
 * sandboxes see because of the programs there.
 */
export function findMachineCredentials(env: NodeJS.ProcessEnv = process.env): string[] {
  const readVariables = (names: RegExp) =>
    Object.entries(env).flatMap(([name, value]) => (value && isAbsolute(value) && names.test(name) ? [value] : []));
  const programs = [
    process.execPath,
    ...['node', 'npm', 'python3', 'git'].map((name) => findProgramOnPath(name, env['PATH'])),
  ];
  const prefixes = programs.flatMap((program) => (program === undefined ? [] : prefixesOf(program)));
  const all = ['/usr', '/usr/local', ...readVariables(prefixVariables), ...prefixes].flatMap((prefix) =>
    pathsBelowPrefix.map((path) => join(prefix, path)),
  );
  return [...new Set([...readVariables(fileVariables), ...all].flatMap(resolveFile))];
}

/** The prefixes of a program, by its name and by the target of its link: npm lies far below the prefix of its node. */
function prefixesOf(program: string): string[] {
  return [program, ...resolveFile(program)].map((path) => dirname(dirname(path)));
}

function resolveFile(path: string): string[] {
  try {
    const real = realpathSync.native(path);
    return lstatSync(real).isFile() ? [real] : [];
  } catch {
    return [];
  }
}
