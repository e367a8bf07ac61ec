import { type Dir, type Dirent, lstatSync, opendirSync, readlinkSync, type Stats } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';

/**
 * Names of files and folders that a developer's own tools run, or take settings from, merely because they work in the
 * folder: shells, git, editors, package managers, agents, forges. Sandboxed servers and the file tools of sessions may
 * read them but not write them. Files that are run on purpose, such as a Makefile, are not among them. `*` stands for
 * any characters.
 */
export const protectedNames: readonly string[] = [
  // Agents, and the servers they start.
  '.mcp.json',
  'AGENT.md',
  'AGENTS.md',
  'AGENTS.override.md',
  'CLAUDE.md',
  'CLAUDE.local.md',
  'CRUSH.md',
  'GEMINI.md',
  'QWEN.md',
  'WARP.md',
  '.agent',
  '.agents',
  '.aider.conf.yml',
  '.aider.model.settings.yml',
  '.amp',
  '.amazonq',
  '.augment',
  '.claude',
  '.cline',
  '.clinerules',
  '.codex',
  '.continue',
  '.continuerules',
  '.cursor',
  '.cursorrules',
  '.factory',
  '.gemini',
  '.goosehints',
  '.junie',
  '.kilocode',
  '.kiro',
  '.opencode',
  '.openhands',
  'opencode.json',
  'opencode.jsonc',
  'crush.json',
  '.crush.json',
  '.qwen',
  '.roo',
  '.roomodes',
  '.roorules',
  '.rules',
  '.trae',
  '.windsurf',
  '.windsurfrules',
  // Editors, debuggers and interactive interpreters.
  '.vscode',
  '*.code-workspace',
  '.idea',
  '.zed',
  '.bsp',
  '.fleet',
  '.nova',
  '.ropeproject',
  '.theia',
  '.vim',
  '.helix',
  '.devcontainer',
  '.devcontainer.json',
  '*.sublime-project',
  '.dir-locals.el',
  '.dir-locals-2.el',
  '.exrc',
  '.nvimrc',
  '.nvim.lua',
  '.vimrc',
  '.lvimrc',
  '.luarc.json',
  '.ycm_extra_conf.py',
  '.merlin',
  'hie.yaml',
  '.gdbinit',
  '.lldbinit',
  '.pdbrc',
  '.perldb',
  '.Rprofile',
  '.Renviron',
  '.RData',
  '.octaverc',
  '.ocamlinit',
  '.pryrc',
  '.irbrc',
  '.ghci',
  '.iex.exs',
  // Version control, and the settings of installed hooks.
  '.gitconfig',
  '.gitmodules',
  '.githooks',
  '.husky',
  '.hg',
  '.jj',
  '.sl',
  '_darcs',
  '.pre-commit-config.yaml',
  '.pre-commit-config.yml',
  'prek.toml',
  'lefthook*',
  '.lefthook*',
  '.overcommit.yml',
  // Package managers and version managers.
  '.npmrc',
  '.yarnrc*',
  '.pnpmfile.*',
  '.corepack.env',
  '.pnp.*',
  'mise.toml',
  '.mise.toml',
  'mise.*.toml',
  '.mise.*.toml',
  '.tool-versions',
  '.rvmrc',
  '.mise',
  'rust-toolchain',
  'rust-toolchain.toml',
  'global.json',
  'bunfig.toml',
  'NuGet.Config',
  '.mvn',
  '.sbtopts',
  '.jvmopts',
  // Shells.
  '.envrc',
  '.autoenv*.zsh',
  '.shadowenv.d',
  '.ssh',
  '.bashrc',
  '.bash_aliases',
  '.bash_login',
  '.bash_logout',
  '.bash_profile',
  '.profile',
  '.zshrc',
  '.zprofile',
  '.zshenv',
  '.zlogin',
  '.zlogout',
  // Web servers and frameworks.
  '.flaskenv',
  '.htaccess',
  '.user.ini',
  // Forges, which run these with the rights of whoever pushes.
  '.buildkite',
  '.circleci',
  '.cirrus.yml',
  '.drone.yml',
  '.gitlab-ci.yml',
  '.travis.yml',
  '.woodpecker',
  '.woodpecker.yml',
  'azure-pipelines.yml',
  'bitbucket-pipelines.yml',
  'Jenkinsfile',
];

/** Paths that are protected only in a certain folder, wherever that folder is. */
export const protectedPaths: readonly string[] = [
  '.bundle/config',
  '.cargo/config',
  '.cargo/config.toml',
  '.config/mise',
  '.config/mise.toml',
  '.forgejo/workflows',
  '.gitea/workflows',
  '.github/agents',
  '.github/actions',
  '.github/chatmodes',
  '.github/copilot',
  '.github/copilot-instructions.md',
  '.github/hooks',
  '.github/instructions',
  '.github/prompts',
  '.github/skills',
  '.github/workflows',
  '.yarn/plugins',
  '.yarn/releases',
];

/** Version control stores, which are large. Their settings lie at the top level. */
const contentStores: ReadonlySet<string> = new Set(['.hg', '.jj', '.sl', '_darcs']);
/** Names that git follows in the folder of a repository, whatever its configuration says. */
const gitFollowedNames = ['hooks', 'info', 'config', 'config.worktree'];
const topFolders: ReadonlySet<string> = new Set(protectedPaths.map((path) => path.split('/')[0] as string));
/** Names without a wildcard, whose presence one lstat shows. */
const plainNames = [...protectedNames.filter((name) => !name.includes('*')), ...topFolders];
const protectedNamePattern = new RegExp(`^(?:${protectedNames.map(toRegExpSource).join('|')})$`, 'i');

/** Whether a file or folder of this name is protected, in any letter case. */
export function isProtectedName(name: string): boolean {
  return protectedNamePattern.test(name);
}

/** Converts a name to the source of a regular expression; `*` stops at a slash. */
export function toRegExpSource(name: string): string {
  return name.replace(/[.+?^${}()|[\]\\/]/g, '\\$&').replaceAll('*', '[^/]*');
}

/** Whether a folder entry is protected, or holds protected paths, and can lead elsewhere. A plain file cannot. */
export function isProtectedNonFile(entry: Dirent): boolean {
  return !entry.isFile() && (topFolders.has(entry.name) || isProtectedName(entry.name));
}

/** Lists the names of such entries. If the folder is too large to list, plain names are checked one by one. */
function listProtectedNonFiles(folder: string): string[] {
  const entries = listFolder(folder);
  const listed = entries.filter(isProtectedNonFile).map(({ name }) => name);
  return entries.length < maxListed ? listed : [...listed, ...listKnownProtectedNonFiles(folder)];
}

/** Lists those that can be found without listing the folder. */
export function listKnownProtectedNonFiles(folder: string): string[] {
  return plainNames.filter((name) => lstatIfPresent(`${folder}/${name}`)?.isFile() === false);
}

/** Finds protected paths that lead elsewhere by a link: whoever may write the target could change the settings. */
export function findProtectedLinks(
  folder: string,
  isAllowed: (names: readonly string[]) => boolean,
  search: LinkSearch = {},
): string[] {
  const { lookAt = lstatIfPresent } = search;
  const present = new Set((search.followedIn ?? listProtectedNonFiles)(folder));
  const byName = [...present]
    .filter((name) => isProtectedName(name) && !isAllowed([name]))
    .flatMap((name) => findLinks(`${folder}/${name}`, { ...search, maxLevels: contentStores.has(name) ? 1 : 6 }));
  const byPath = protectedPaths
    .filter((path) => present.has(path.split('/')[0] as string) && !isAllowed(path.split('/')))
    .flatMap((path) => {
      const followed = followLinks(`${folder}/${path}`, lookAt);
      const isLed = followed?.links.some((link) => link.startsWith(`${folder}/`)) ?? false;
      return isLed ? [`${folder}/${path}`] : findLinks(`${folder}/${path}`, search);
    });
  return [...byName, ...byPath];
}

/** Finds such links in the folder of a git repository. */
export function findGitLinks(gitFolder: string, search: LinkSearch = {}): string[] {
  return gitFollowedNames.flatMap((name) => findLinks(`${gitFolder}/${name}`, search));
}

/** The result of following the symbolic links of an absolute path. */
interface FollowedPath {
  /** The path without links, as far as it exists. */
  readonly realPath: string;
  /** The links that were followed, each by its own path. */
  readonly links: readonly string[];
  /** The first path component that does not exist. */
  readonly missing: string | undefined;
}

/** Stats a path without following a link there; undefined if nothing is found. */
type LstatPath = (place: string) => Stats | undefined;

const maxLinks = 40;

/** Follows every symbolic link of a path, as far as it exists. Undefined if the links form a circle. */
export function followLinks(path: string, lookAt: LstatPath = lstatIfPresent): FollowedPath | undefined {
  const links: string[] = [];
  let missing: string | undefined;
  let realPath = '';
  const ahead = splitNames(path).reverse();
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    const next = `${realPath}/${name}`;
    const found = missing === undefined ? lookAt(next) : undefined;
    const target = found?.isSymbolicLink() ? readLinkTarget(next) : undefined;
    if (target === undefined) {
      if (found === undefined) missing ??= next;
      realPath = next;
      continue;
    }
    if (links.push(next) > maxLinks) return undefined;
    ahead.push(...splitNames(resolve(dirname(next), target)).reverse());
    realPath = '';
  }
  return { realPath: realPath === '' ? sep : realPath, links, missing };
}

function readLinkTarget(link: string): string | undefined {
  try {
    return readlinkSync(link);
  } catch {
    return undefined;
  }
}

const splitNames = (path: string): string[] => path.split(sep).filter((name) => name !== '');

/** The default for `lookAt`, exported for callers that record what was looked at. */
export function lstatIfPresent(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/** Bound of a search; further entries are ignored. Only trusted users write the folders that are searched. */
const maxEntries = 2000;

interface LinkSearch {
  readonly lookAt?: LstatPath;
  readonly entriesIn?: (folder: string) => readonly Dirent[];
  /** Lists the protected names in a folder that may be links or hold some. Default: `listProtectedNonFiles`. */
  readonly followedIn?: (folder: string) => readonly string[];
  /** Levels of folders that are searched. */
  readonly maxLevels?: number;
}

/** Finds the links at a path and in the folders below it, except in `node_modules`. */
export function findLinks(start: string, search: LinkSearch = {}): string[] {
  const { lookAt = lstatIfPresent, entriesIn = listFolder, maxLevels = 6 } = search;
  const top = lookAt(start);
  if (top?.isSymbolicLink()) return [start];
  const links: string[] = [];
  const folders = top?.isDirectory() ? [{ path: start, level: 1 }] : [];
  let left = maxEntries;
  for (const { path, level } of folders) {
    for (const entry of entriesIn(path)) {
      if (left-- <= 0) return links;
      if (entry.isSymbolicLink()) links.push(`${path}/${entry.name}`);
      const isEntered = entry.isDirectory() && level < maxLevels && entry.name !== 'node_modules';
      if (isEntered) folders.push({ path: `${path}/${entry.name}`, level: level + 1 });
    }
  }
  return links;
}

/** Bound of one listing, which blocks the event loop. */
const maxListed = 10_000;

/** Lists the first entries of a folder. Empty if it is no folder or cannot be read. */
export function listFolder(folder: string): Dirent[] {
  const entries: Dirent[] = [];
  for (const entry of iterateFolder(folder)) if (entries.push(entry) === maxListed) break;
  return entries;
}

/** Reads the entries of a folder one by one, so that the caller can stop. Entries created meanwhile may be missing. */
export function* iterateFolder(folder: string): Generator<Dirent> {
  let opened: Dir | undefined;
  try {
    opened = opendirSync(folder, { bufferSize: 256 });
    for (let entry = opened.readSync(); entry !== null; entry = opened.readSync()) yield entry;
  } catch {
    // It is no folder, or cannot be read.
  } finally {
    opened?.closeSync();
  }
}
