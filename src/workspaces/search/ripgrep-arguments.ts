import type { Glob } from '../../text/glob.ts';
import { largestSearched } from './file-text.ts';

/** More than these are not worth telling. */
const mostNames = 32;

/**
 * Names of files with a match, each followed by a NUL. The expression comes over stdin: arguments can be read by every
 * user of the machine. Nothing is read but the files themselves: no configuration, no program, no link.
 */
export function ripgrepArguments(folder: string, glob: Glob | undefined): string[] {
  return [
    ...['--no-config', '--files-with-matches', '--null', '--color=never', '--no-follow', '--no-mmap'],
    ...['--engine=default', '--no-pre', '--no-search-zip', '--no-multiline', '--no-crlf', '--case-sensitive'],
    ...['--hidden', '--no-require-git', '--no-ignore-dot', '--no-ignore-global', '--glob=!.git'],
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
