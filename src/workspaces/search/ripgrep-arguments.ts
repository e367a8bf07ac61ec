import type { Glob } from '../../lib/text/glob.ts';
import { largestSearched } from './file-text.ts';
import { excludeFile, fileName, repositoryName } from './ignore-levels.ts';

/** More than these are not worth telling. */
const mostNames = 32;

/** All it finds is told by name, each followed by a NUL. It opens no ignore file of the tree and follows no link. */
const always = ['--no-config', '--null', '--color=never', '--no-follow', '--hidden', '--no-ignore'];

/** Names of regular files that say what is ignored. None is opened. */
export function ignoreFilesArguments(folder: string): string[] {
  // The last that fits decides: of a repository only the one file is looked at.
  const wanted = [fileName, `!**/${repositoryName}/*`, `**/${repositoryName}/info`, `**/${excludeFile}`];
  return [...always, '--files', ...wanted.map((glob) => `--glob=${glob}`), '--', folder];
}

/**
 * Names of files with a match. The expression comes over stdin: arguments can be read by every user of the machine.
 * Nothing is read but the files themselves, and the rules that were written down for it: no configuration, no program.
 */
export function searchArguments(folder: string, glob: Glob | undefined, rules: string | undefined): string[] {
  return [
    ...[...always, '--files-with-matches', '--no-mmap', `--glob=!${repositoryName}`],
    ...['--engine=default', '--no-pre', '--no-search-zip', '--no-multiline', '--no-crlf', '--case-sensitive'],
    ...(rules === undefined ? [] : [`--ignore-file=${rules}`]),
    ...[`--max-filesize=${largestSearched}`, ...namesWanted(glob), '--file=-', '--', folder],
  ];
}

/**
 * Only files that bear such names; what `--glob` names would be searched even where it is ignored. The glob itself is
 * judged later: this only saves the reading of files that cannot fit.
 */
function namesWanted(glob: Glob | undefined): string[] {
  // For ripgrep one character is one byte.
  const names = (glob?.names ?? []).map((name) => name.replace(/\?|\[[!^]?.[^\]]*\]/g, '*'));
  // A type says what is before a colon by itself.
  if (names.length === 0 || names.length > mostNames || names.some((name) => /^\*+$|[:\\[\]]/.test(name))) return [];
  return [...names.map((name) => `--type-add=wanted:${name}`), '--type=wanted'];
}
