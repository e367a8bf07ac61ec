import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import { type GitSetting, parseGitConfig } from './git-config.ts';

/** A place that the configuration of a repository names, and git follows. */
export interface GitOrder {
  /** Absolute; links on the way are not followed yet. */
  readonly place: string;
  /** `path` and `word`: a part of a command, with a slash in it or without; it may be a file or anything else. */
  readonly kind: 'folder' | 'file' | 'settings' | 'path' | 'word';
}

/** Reads a file of settings; empty where there is none. */
export type ReadSettings = (path: string) => string;

/** The configuration cannot be read within bounds, so nobody knows what git follows. */
export class OrdersUnknown extends Error {
  /** The rest of a sentence about the configuration of git. */
  readonly what: string;

  constructor(what: string, cause?: unknown) {
    super(`The configuration of git ${what}.`, { cause });
    this.name = 'OrdersUnknown';
    this.what = what;
  }
}

/** Settings whose value is a command that git runs. */
const commands =
  /^(?:core\.(?:fsmonitor|editor|pager|sshcommand|askpass|gitproxy|alternaterefscommand)|sequence\.editor|diff\.(?:external|command|textconv)|merge\.driver|filter\.(?:clean|smudge|process)|gpg\.(?:program|defaultkeycommand)|credential\.helper|alias\..*|pager\..*|(?:difftool|mergetool|browser|man)\.(?:cmd|path)|(?:web|help)\.browser|interactive\.difffilter|uploadpack\.packobjectshook|gc\.recentobjectshook|hook\.command|submodule\.update|trailer\.(?:command|cmd)|remote\.(?:uploadpack|receivepack|vcs)|sendemail\.(?:.*cmd|smtpserver)|imap\.tunnel|instaweb\.(?:httpd|browser)|lfs\.(?:path|clean|smudge)|(?:tar|guitool)\.(?:command|cmd))$/;
/** Those whose value is a file or folder that it follows. */
const folders = /^(?:core\.hookspath|init\.templatedir)$/;
const files = /^core\.attributesfile$/;
const inclusions = /^include(?:if)?\.path$/;

const mostBytes = 1024 * 1024;
const mostIncluded = 50;

/** All that the configuration of a repository names. Throws OrdersUnknown where it cannot be read within bounds. */
export function gitOrdersOf(workTree: string, gitFolder: string, read: ReadSettings = readSettings): GitOrder[] {
  const orders: GitOrder[] = [];
  const seen = new Set<string>();
  const own = configurationsOfAccount();
  const ahead = [...configurationsOf(gitFolder, read), ...own];
  for (const file of ahead) {
    if (seen.has(file)) continue;
    if (seen.size === mostIncluded) throw new OrdersUnknown(`includes more than ${mostIncluded} files`);
    seen.add(file);
    for (const setting of parseGitConfig(own.includes(file) ? readIfAllowed(file, read) : read(file))) {
      if (inclusions.test(setting.name)) {
        const place = placeOf(setting.value, dirname(file));
        if (place === undefined) continue;
        ahead.push(place);
        orders.push({ place, kind: 'settings' });
      } else orders.push(...ordersIn(setting, workTree));
    }
  }
  return orders;
}

function ordersIn({ name, value }: GitSetting, workTree: string): GitOrder[] {
  const isFolder = folders.test(name);
  if (isFolder || files.test(name)) {
    const place = placeOf(value, workTree);
    return place === undefined ? [] : [{ place, kind: isFolder ? 'folder' : 'file' }];
  }
  if (!commands.test(name)) return [];
  return value.split(/[\s'"`;&|()<>=$]+/).flatMap((word) => {
    const place = placeOf(word.replace(/^!/, ''), workTree);
    return place === undefined ? [] : [{ place, kind: word.includes('/') ? ('path' as const) : ('word' as const) }];
  });
}

/** The folder of a repository, where `.git` is one or a file that says where it lies. */
export function gitFolderOf(workTree: string, read: ReadSettings = readSettings): string {
  const dot = join(workTree, '.git');
  const said = /^gitdir: ([^\n]+)/.exec(read(dot))?.[1]?.trim();
  if (said === undefined) return dot;
  return isAbsolute(said) ? said : join(workTree, said);
}

/** The folder may be that of a worktree, which has the rest of the repository elsewhere. */
export function gitFoldersOf(gitFolder: string, read: ReadSettings = readSettings): string[] {
  const common = read(join(gitFolder, 'commondir')).trim();
  if (common === '') return [gitFolder];
  return [gitFolder, isAbsolute(common) ? common : join(gitFolder, common)];
}

function configurationsOf(gitFolder: string, read: ReadSettings): string[] {
  return gitFoldersOf(gitFolder, read).flatMap((folder) => [join(folder, 'config'), join(folder, 'config.worktree')]);
}

function configurationsOfAccount(): string[] {
  const settings = process.env['XDG_CONFIG_HOME'];
  const named = ['~/.gitconfig', '~/.config/git/config', ...(settings ? [join(settings, 'git/config')] : [])];
  return [...named, '/etc/gitconfig'].flatMap((path) => placeOf(path, '/') ?? []);
}

function placeOf(value: string, from: string): string | undefined {
  if (value === '') return undefined;
  const home = process.env['HOME'];
  if (value.startsWith('~'))
    return value.startsWith('~/') && home !== undefined ? join(home, value.slice(2)) : undefined;
  return normalize(isAbsolute(value) ? value : join(from, value)).replace(/(?<!\/)\/+$/, '');
}

/** What this account may not read, its git does not either. */
function readIfAllowed(path: string, read: ReadSettings): string {
  try {
    return read(path);
  } catch (error) {
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
    if (code === 'EACCES') return '';
    throw error;
  }
}

/** Empty where there is no such file. Throws OrdersUnknown where there is one that is not plain, too large, or closed. */
export function readSettings(path: string): string {
  let descriptor: number | undefined;
  try {
    // One that nobody writes to, or that another program holds, would keep us waiting for ever.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(descriptor);
    if (stats.isDirectory()) return '';
    if (!stats.isFile()) throw new OrdersUnknown('cannot be read: it is no plain file');
    if (stats.size > mostBytes) throw new OrdersUnknown('cannot be read: it is larger than 1 MiB');
    return readFileSync(descriptor, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP' || code === 'ENAMETOOLONG') return '';
    if (error instanceof OrdersUnknown) throw error;
    throw new OrdersUnknown(`cannot be read (${code})`, error);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
