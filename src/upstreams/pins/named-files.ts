import { statSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import { isStarter, type Language, languageOf } from './interpreters.ts';
import { isFolder, spellingsOf, triedFor } from './script-names.ts';
import { wordsIn } from './words.ts';

/** A command line that may mean more places than this is not looked through, and so not approved. */
const mostPlaces = 5000;
/** Nor is one with more characters. */
const longest = 256 << 10;

/** Said where a server names more than can be looked for. */
export const tooMany = 'its command line names too many files to look for them all';

/** The command line of a server. */
export interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * Every path that an argument may mean: as it is written, as its interpreter completes it, from the folder of the file or
 * from a folder that another argument names (`--directory /srv/x run server.py`). What does not exist yet is looked for
 * as well, so that it counts as a change when it appears. Undefined where there are too many.
 */
export function filesOfArgs({ command, args }: CommandLine, folder: string): string[] | undefined {
  if (isTooLong(args)) return undefined;
  const words = args.map(wordsIn);
  const count = new Set(words.flat()).size;
  if (count > mostPlaces) return undefined;
  const languages = languagesIn(command, words.flat());
  const script = languageOf(command) === undefined ? args.length : indexOfScript(args);
  const bases = basesOf(words.flat(), folder);
  if (bases.length * count > mostPlaces) return undefined;
  const own = runsFolder(command) ? triedFor(folder, languages, true).filter((path) => path !== folder) : [];
  const named = words.flatMap((each, index) => placesOf(each, bases, languages, index <= script));
  return [...new Set([...named, ...own])].sort();
}

/** The same for the values of variables. A value is taken for more than a file only where it looks like a path. */
export function filesOfValues(line: CommandLine, values: Iterable<string>, folder: string): string[] | undefined {
  const texts = [...values];
  if (isTooLong([...line.args, ...texts])) return undefined;
  const words = texts.flatMap(wordsIn);
  if (words.length > mostPlaces) return undefined;
  const languages = languagesIn(line.command, line.args.flatMap(wordsIn));
  const paths = words.filter((word) => /^[./~]/.test(word));
  const plain = words.filter((word) => !/^[./~]/.test(word));
  return [...new Set([...placesOf(paths, [folder], languages, false), ...placesOf(plain, [folder], [], false)])];
}

/** The languages that a command line runs, so far as its words tell. */
export function languagesIn(command: string, words: readonly string[]): Language[] {
  // The other names of task runners are ordinary words.
  const named = words.filter((word) => languageOf(word) !== 'tasks' || /make$/.test(word));
  const found = [command, ...named].flatMap((word) => languageOf(word) ?? []);
  return [...new Set(found.includes('typescript') ? [...found, 'javascript' as const] : found)];
}

/** The languages of the program that a command line starts, also behind `env` and the like. */
export function startedLanguages({ command, args }: CommandLine): Language[] {
  return languagesIn(command, isStarter(command) ? args.flatMap(wordsIn) : []);
}

function isTooLong(texts: readonly string[]): boolean {
  return texts.reduce((sum, { length }) => sum + length, 0) > longest;
}

function basesOf(words: readonly string[], folder: string): string[] {
  const folders = words.filter((word) => !word.startsWith('-')).map((word) => resolve(folder, word));
  return [folder, ...new Set(folders.filter((path) => path !== folder && isFolder(path)))];
}

function placesOf(
  words: readonly string[],
  bases: readonly string[],
  languages: readonly Language[],
  folders: boolean,
): string[] {
  const usable = words.filter((word) => !word.startsWith('-')).flatMap((word) => spellingsOf(word, languages));
  const paths = usable.flatMap((word) =>
    isAbsolute(word) ? [resolve(word)] : bases.map((base) => resolve(base, word)),
  );
  return [...new Set(paths)].flatMap((path) => triedFor(path, languages, folders));
}

/** Options of interpreters that take no value, so that the word after them is the script. */
const withoutValue =
  /^(?:--|-[uBEIsSOiv]|--(?:enable-source-maps|no-[\w-]+|inspect(?:-brk)?|watch|use-system-ca|experimental-(?:strip|transform)-types|experimental-vm-modules))$|=/;

/**
 * The last argument that may be a script; what follows is for the script to read. An option may take the word after it,
 * so that word ends nothing.
 */
function indexOfScript(args: readonly string[]): number {
  const index = args.findIndex((arg, at) => {
    const before = args[at - 1] ?? '--';
    return !arg.startsWith('-') && (!before.startsWith('-') || withoutValue.test(before)) && isFile(arg);
  });
  // A script may start the program that follows it.
  const startsMore = args.slice(index + 1).some((arg) => wordsIn(arg).some((word) => languageOf(word) !== undefined));
  return index === -1 || startsMore ? args.length : index;
}

/** Programs that read in their folder what to do. */
function runsFolder(command: string): boolean {
  return /(?:^|\/)(?:npm|pnpm|yarn|bun|make|gmake|just|task|rake)$/.test(command);
}

function isFile(path: string): boolean {
  try {
    return isAbsolute(path) && statSync(path).isFile();
  } catch {
    return false;
  }
}
