import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, normalize } from 'node:path';
import { isGuardedName } from '../../guarded-names.ts';
import type { Collector } from './collect-guarded.ts';
import { type GitSetting, parseGitConfig } from './git-config.ts';
import { isOpened } from './is-opened.ts';
import { lookWithin, type Pinned } from './pinned.ts';
import { isPlaceholder } from './placeholders.ts';
import { unavailable } from './remedy.ts';

/** Settings whose value is a command that git runs. */
const commands =
  /^(?:core\.(?:fsmonitor|editor|pager|sshcommand|askpass|gitproxy|alternaterefscommand)|sequence\.editor|diff\.(?:external|command|textconv)|merge\.driver|filter\.(?:clean|smudge|process)|gpg\.(?:program|defaultkeycommand)|credential\.helper|alias\..*|pager\..*|(?:difftool|mergetool|browser|man)\.(?:cmd|path)|interactive\.difffilter|uploadpack\.packobjectshook|trailer\.(?:command|cmd)|remote\.(?:uploadpack|receivepack|vcs)|sendemail\..*cmd|(?:tar|guitool)\.(?:command|cmd))$/;
/** Those whose value is a file or folder that it follows. */
const folders = /^core\.hookspath$/;
const files = /^core\.attributesfile$/;
const inclusions = /^include(?:if)?\.path$/;

const mostBytes = 1024 * 1024;
const mostIncluded = 50;

/**
 * What the configuration of a repository names in a folder that may be written: hooks, further configuration, programs.
 * It becomes read-only wherever it lies. What is missing and would be followed once it is there has its name taken.
 */
export function guardOrders(top: Pinned, workTree: string, gitFolder: string, collector: Collector): void {
  const seen = new Set<string>();
  const ahead = configurationsOf(gitFolder);
  for (const file of ahead) {
    if (seen.has(file)) continue;
    if (seen.size === mostIncluded) throw tooMany();
    seen.add(file);
    for (const setting of parseGitConfig(readIfThere(file))) {
      if (inclusions.test(setting.name)) {
        const included = placeOf(setting.value, dirname(file));
        if (included === undefined) continue;
        ahead.push(included);
        guardPlace(top, included, 'file', collector);
      } else guardSetting(top, workTree, setting, collector);
    }
  }
}

function guardSetting(top: Pinned, workTree: string, { name, value }: GitSetting, collector: Collector): void {
  const isFolder = folders.test(name);
  if (isFolder || files.test(name)) {
    const place = placeOf(value, workTree);
    if (place !== undefined) guardPlace(top, place, isFolder ? 'folder' : 'file', collector);
    return;
  }
  if (!commands.test(name)) return;
  for (const word of value.split(/[\s'"`;&|()<>=$]+/).filter((each) => each !== '')) {
    const place = placeOf(word.replace(/^!/, ''), workTree);
    if (place !== undefined) guardPlace(top, place, 'present', collector);
  }
}

/** The places of the configuration, that of this account too; the folder may be that of a worktree, which has the rest elsewhere. */
function configurationsOf(gitFolder: string): string[] {
  const common = readIfThere(join(gitFolder, 'commondir')).trim();
  const rest = common === '' ? [] : [isAbsolute(common) ? common : join(gitFolder, common)];
  const own = [placeOf('~/.gitconfig', '/'), placeOf('~/.config/git/config', '/')].filter((path) => path !== undefined);
  return [gitFolder, ...rest]
    .flatMap((folder) => [join(folder, 'config'), join(folder, 'config.worktree')])
    .concat(own);
}

/** The folder of a repository, where `.git` is one or a file that says where it lies. */
export function gitFolderOf(workTree: string): string {
  const dot = join(workTree, '.git');
  const said = /^gitdir: ([^\n]+)/.exec(readIfThere(dot))?.[1]?.trim();
  if (said === undefined) return dot;
  return isAbsolute(said) ? said : join(workTree, said);
}

function placeOf(value: string, from: string): string | undefined {
  if (value === '') return undefined;
  const home = process.env['HOME'];
  if (value.startsWith('~'))
    return value.startsWith('~/') && home !== undefined ? join(home, value.slice(2)) : undefined;
  return normalize(isAbsolute(value) ? value : join(from, value)).replace(/(?<!\/)\/+$/, '');
}

/** A command may be any word, so of those only what is there counts. */
function guardPlace(top: Pinned, place: string, what: 'folder' | 'file' | 'present', collector: Collector): void {
  if (!place.startsWith(`${top.real}/`)) return;
  const names = place.slice(top.real.length + 1).split('/');
  if (isGuardedElsewhere(top, names)) return;
  let here: Pinned | undefined = top;
  for (const [at, name] of names.entries()) {
    const isLast = at === names.length - 1;
    const found = lookWithin(here, name);
    if (found === undefined || isPlaceholder(here, name)) {
      if (what === 'present' || top.guard === undefined) return;
      collector.occupy(here, name, isLast && what === 'file' ? '' : undefined);
      return;
    }
    if (found.isSymbolicLink()) {
      if (what !== 'present') throw leadsThroughLink();
      collector.watch(here, name);
      const led = whereItLeads(place);
      if (led !== undefined) guardPlace(top, led, what, collector);
      return;
    }
    if (isLast && (what !== 'present' || found.isFile())) collector.readOnly(here, name);
    here = isLast ? undefined : collector.keep(here, name);
    if (here === undefined) return;
  }
}

/** A repository that is read-only as a whole, or what the operator has opened by its name. */
function isGuardedElsewhere(top: Pinned, names: readonly string[]): boolean {
  const [first = ''] = names;
  if (names.includes('.git')) return first !== '.git' || top.guard?.git !== 'write';
  return isGuardedName(first) && isOpened(top, [first]);
}

function whereItLeads(place: string): string | undefined {
  try {
    return realpathSync.native(place);
  } catch {
    return undefined;
  }
}

/** Empty where there is no such file, none that can be read, or none that is small enough to be settings. */
function readIfThere(path: string): string {
  let descriptor: number | undefined;
  try {
    // One that nobody writes to would keep us waiting for ever.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = fstatSync(descriptor);
    return stats.isFile() && stats.size <= mostBytes ? readFileSync(descriptor, 'utf8') : '';
  } catch {
    return '';
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

function leadsThroughLink() {
  return unavailable(
    'the configuration of a repository names something in the workspace that is a link or lies behind one, and cannot be guarded',
    'Look at "git config --list --show-origin", and name the place itself there.',
  );
}

function tooMany() {
  return unavailable(
    `the configuration of a repository includes more than ${mostIncluded} files`,
    'Look at "git config --list --show-origin", and who wrote them.',
  );
}
