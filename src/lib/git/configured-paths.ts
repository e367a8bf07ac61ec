import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import { findCommandFiles } from './git-commands.ts';

/** A path that the configuration of a repository names, and that git follows. */
export interface ConfiguredPath {
  /** Absolute; symbolic links are not resolved yet. */
  readonly path: string;
  /** `path` and `word` are parts of a command, with or without a slash; they may be files or anything else. */
  readonly kind: 'folder' | 'file' | 'settings' | 'path' | 'word';
}

/** Reads a configuration file; empty if there is none. */
type ReadGitConfigFile = (path: string) => string;

/** The configuration cannot be read within limits, so it is unknown which paths git follows. */
export class GitConfigError extends Error {
  /** The rest of a sentence that begins with "The configuration of git". */
  readonly what: string;

  constructor(what: string, cause?: unknown) {
    super(`The configuration of git ${what}.`, { cause });
    this.name = 'GitConfigError';
    this.what = what;
  }
}

const commandSettings =
  /^(?:core\.(?:fsmonitor|editor|pager|sshcommand|askpass|gitproxy|alternaterefscommand)|sequence\.editor|diff\.(?:external|command|textconv)|merge\.driver|filter\.(?:clean|smudge|process)|gpg\.(?:program|defaultkeycommand)|credential\.helper|alias\..*|pager\..*|(?:difftool|mergetool|browser|man)\.(?:cmd|path)|(?:web|help)\.browser|interactive\.difffilter|uploadpack\.packobjectshook|gc\.recentobjectshook|hook\.command|submodule\.update|trailer\.(?:command|cmd)|remote\.(?:uploadpack|receivepack|vcs)|sendemail\.(?:.*cmd|smtpserver)|imap\.tunnel|instaweb\.(?:httpd|browser)|lfs\.(?:path|args|clean|smudge)|tig\..*|secrets\.providers|.*\.(?:.*(?:command|cmd|program|prog|hook)|pager|editor|browser))$/;
/** Settings whose value is a folder or file that git follows. */
const folderSettings = /^(?:core\.hookspath|init\.templatedir|gitflow\.hooks)$/;
const fileSettings = /^core\.attributesfile$/;
const includeSettings = /^include(?:if)?\.path$/;
/** Limit of one file, which is parsed at once. */
const maxFileBytes = 512 * 1024;
const maxIncludedFiles = 50;

/** Limits of one job, for all repositories that it looks at. */
interface GitConfigLimits {
  /** Bytes of configuration, each file counted once. */
  readonly bytes: number;
  /** Paths and words of commands in settings, each counted once per file. */
  readonly named: number;
  /** The same, counted again for each repository. */
  readonly followed: number;
}

const defaultLimits: GitConfigLimits = { bytes: 2 * 1024 * 1024, named: 2000, followed: 100_000 };

/** Reads git configuration, each file once. Throws GitConfigError beyond its limits. */
export interface GitConfigReader {
  readonly read: ReadGitConfigFile;
  settingsIn(path: string): readonly GitSetting[];
  /** The paths that a file names, as they are written there. */
  namedIn(path: string): readonly NamedValue[];
  countFollowed(): void;
}

interface NamedValue {
  readonly value: string;
  readonly kind: ConfiguredPath['kind'];
}

export function createGitConfigReader(
  read: ReadGitConfigFile = readGitConfigFile,
  bounds: Partial<GitConfigLimits> = {},
): GitConfigReader {
  const { bytes, named, followed } = { ...defaultLimits, ...bounds };
  const left = { bytes, named, followed };

  function spend(what: keyof GitConfigLimits, count: number, complaint: string): void {
    left[what] -= count;
    if (left[what] < 0) throw new GitConfigError(complaint);
  }

  const readOnce = memoizeByPath((path) => {
    const text = read(path);
    spend('bytes', Buffer.byteLength(text), `is larger than ${bytes >> 10} KiB, including the files that it includes`);
    return text;
  });
  const settingsIn = memoizeByPath((path) => parseGitConfig(readOnce(path)));
  const namedIn = memoizeByPath((path) => {
    const found = new Map<string, NamedValue>();
    for (const setting of settingsIn(path)) {
      for (const each of findNamedValues(setting)) {
        const key = `${each.kind} ${each.value}`;
        if (found.has(key)) continue;
        found.set(key, each);
        spend('named', 1, `names more than ${named} files, folders and words of commands`);
      }
    }
    return [...found.values()];
  });
  return {
    read: readOnce,
    settingsIn,
    namedIn,
    countFollowed: () => spend('followed', 1, `names more than ${followed} paths in all repositories together`),
  };
}

function memoizeByPath<T>(find: (path: string) => T): (path: string) => T {
  const known = new Map<string, T>();
  return (path) => {
    if (!known.has(path)) known.set(path, find(path));
    return known.get(path) as T;
  };
}

/**
 * Lists the paths that the configuration of a repository names, file by file, so that other work can run in between.
 * Throws GitConfigError if the configuration cannot be read within limits.
 */
export function* listConfiguredPaths(
  workTree: string,
  gitFolder: string,
  source: GitConfigReader,
): Generator<ConfiguredPath> {
  const seen = new Set<string>();
  const own = listAccountConfigFiles();
  const ahead = [...listConfigFiles(gitFolder, source.read), ...own];
  for (const file of ahead) {
    if (seen.has(file)) continue;
    if (seen.size === maxIncludedFiles) throw new GitConfigError(`includes more than ${maxIncludedFiles} files`);
    seen.add(file);
    for (const { value, kind } of own.includes(file) ? findNamedIfReadable(file, source) : source.namedIn(file)) {
      const resolved = resolveConfiguredPath(value, kind === 'settings' ? dirname(file) : workTree);
      if (resolved === undefined) continue;
      source.countFollowed();
      if (kind === 'settings') ahead.push(resolved);
      const order: ConfiguredPath = { path: resolved, kind };
      yield order;
    }
  }
}

/** A generator, since one command can name very many. */
function* findNamedValues({ name, value }: GitSetting): Generator<NamedValue> {
  if (folderSettings.test(name)) yield { value, kind: 'folder' };
  else if (fileSettings.test(name)) yield { value, kind: 'file' };
  else if (includeSettings.test(name)) yield { value, kind: 'settings' };
  else if (commandSettings.test(name)) {
    const files = findCommandFiles(value);
    if (files === undefined) throw new GitConfigError('contains a command with more paths than can be checked');
    for (const { path, kind } of files) yield { value: path, kind };
  }
}

/** Finds the git folder of a work tree: `.git` itself, or the folder that the file `.git` names. */
export function findGitFolder(workTree: string, read: ReadGitConfigFile = readGitConfigFile): string {
  const dot = join(workTree, '.git');
  const gitDir = /^gitdir: ([^\n]+)/.exec(read(dot))?.[1]?.trim();
  if (gitDir === undefined) return dot;
  return isAbsolute(gitDir) ? gitDir : join(workTree, gitDir);
}

/** Lists the git folder and, if it belongs to a worktree, the folder of the main repository. */
export function listGitFolders(gitFolder: string, read: ReadGitConfigFile = readGitConfigFile): string[] {
  const common = read(join(gitFolder, 'commondir')).trim();
  if (common === '') return [gitFolder];
  return [gitFolder, isAbsolute(common) ? common : join(gitFolder, common)];
}

function listConfigFiles(gitFolder: string, read: ReadGitConfigFile): string[] {
  return listGitFolders(gitFolder, read).flatMap((folder) => [join(folder, 'config'), join(folder, 'config.worktree')]);
}

function listAccountConfigFiles(): string[] {
  const { XDG_CONFIG_HOME: settings, GIT_CONFIG_GLOBAL, GIT_CONFIG_SYSTEM } = process.env;
  const named = ['~/.gitconfig', '~/.config/git/config', ...(settings ? [join(settings, 'git/config')] : [])];
  // The operator's environment may name other files. The usual ones count all the same.
  const fromEnvironment = [GIT_CONFIG_GLOBAL, GIT_CONFIG_SYSTEM].flatMap((path) =>
    path && path !== '/dev/null' ? [path] : [],
  );
  return [...named, '/etc/gitconfig', '/usr/local/etc/gitconfig', ...fromEnvironment].flatMap(
    (path) => resolveConfiguredPath(path, '/') ?? [],
  );
}

function resolveConfiguredPath(value: string, from: string): string | undefined {
  if (value === '') return undefined;
  const home = process.env['HOME'];
  if (value.startsWith('~'))
    return value.startsWith('~/') && home !== undefined ? join(home, value.slice(2)) : undefined;
  return normalize(isAbsolute(value) ? value : join(from, value)).replace(/(?<!\/)\/+$/, '');
}

/** Git cannot read files either that this account may not read. */
function findNamedIfReadable(path: string, source: GitConfigReader): readonly NamedValue[] {
  try {
    return source.namedIn(path);
  } catch (error) {
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
    if (code === 'EACCES') return [];
    throw error;
  }
}

/** Reads a file. Empty if there is none. Throws GitConfigError if it is no plain file, too large or not readable. */
export function readGitConfigFile(path: string): string {
  let descriptor: number | undefined;
  try {
    // A pipe, or a file that another program holds, would block for ever.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(descriptor);
    if (stats.isDirectory()) return '';
    if (!stats.isFile()) throw new GitConfigError('cannot be read: it is not a regular file');
    if (stats.size > maxFileBytes) throw new GitConfigError('cannot be read: it is larger than 512 KiB');
    return readFileSync(descriptor, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG') return '';
    if (error instanceof GitConfigError) throw error;
    throw new GitConfigError(`cannot be read (${code})`, error);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** One setting of a file in git's configuration format. */
interface GitSetting {
  /** Section and key without the subsection, in lower case: `core.hookspath`, `submodule.path`. */
  readonly name: string;
  readonly value: string;
}

/** Parses such a file as git does, in one pass. Lines that git would refuse are skipped. */
export function parseGitConfig(text: string): GitSetting[] {
  const settings: GitSetting[] = [];
  let section = '';
  let at = 0;
  while (at < text.length) {
    const letter = text[at] as string;
    if (letter === '#' || letter === ';') at = endOfLine(text, at);
    else if (letter === '[') {
      const end = endOfSection(text, at);
      section = (/^[a-z0-9-]*/i.exec(text.slice(at + 1, end).trimStart())?.[0] ?? '').toLowerCase();
      at = end + 1;
    } else if (/[a-z]/i.test(letter)) {
      const { name, value, end } = readSetting(text, at);
      settings.push({ name: `${section}.${name}`, value });
      at = end;
    } else at++;
  }
  return settings;
}

function endOfLine(text: string, from: number): number {
  const end = text.indexOf('\n', from);
  return end === -1 ? text.length : end;
}

/** A quoted subsection may contain a bracket. */
function endOfSection(text: string, from: number): number {
  let isQuoted = false;
  for (let at = from; at < text.length; at++) {
    const letter = text[at];
    if (letter === '\n') return at;
    if (letter === '\\' && isQuoted) at++;
    else if (letter === '"') isQuoted = !isQuoted;
    else if (letter === ']' && !isQuoted) return at;
  }
  return text.length;
}

function readSetting(text: string, from: number): { name: string; value: string; end: number } {
  let at = from;
  while (at < text.length && /[a-z0-9-]/i.test(text[at] as string)) at++;
  const name = text.slice(from, at).toLowerCase();
  while (text[at] === ' ' || text[at] === '\t') at++;
  if (text[at] !== '=') return { name, value: '', end: endOfLine(text, at) };
  return { name, ...readValue(text, at + 1) };
}

const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', b: '\b', '\r': '', '\n': '' };

function readValue(text: string, from: number): { value: string; end: number } {
  const parts: string[] = [];
  /** Length without trailing blanks; quoted blanks count. */
  let kept = 0;
  let isQuoted = false;
  let at = from;
  for (; at < text.length; at++) {
    const letter = text[at] as string;
    if (letter === '\n') break;
    if (letter === '"') isQuoted = !isQuoted;
    else if (letter === '\\') {
      const next = text[++at] ?? '';
      if (next === '\r' && text[at + 1] === '\n') at++;
      parts.push(escapes[next] ?? next);
      if (next !== '\n' && next !== '\r') kept = parts.length;
    } else if (!isQuoted && (letter === '#' || letter === ';')) {
      at = endOfLine(text, at);
      break;
    } else if (isQuoted || !/\s/.test(letter)) {
      parts.push(letter);
      kept = parts.length;
    } else if (kept > 0) parts.push(letter);
  }
  return { value: parts.slice(0, kept).join(''), end: at };
}
