/** A file that a command in git's configuration may run. */
interface CommandFile {
  /** Absolute, relative to the home folder (`~/`), or relative to the work tree. */
  readonly path: string;
  /** `path`: protected even if the file does not exist yet. `word`: counts only if such a file exists. */
  readonly kind: 'path' | 'word';
}

/** Ways to write the top of the work tree, where git runs commands. */
const workTreePatterns =
  /\$(?:PWD|GIT_WORK_TREE)\b|\$\{(?:PWD|GIT_WORK_TREE)(?::?[-=?+][^{}]{0,200})?\}|(?:\$GIT_DIR|\$\{GIT_DIR[^{}]{0,200}\})\/\.\.(?![^/"'\s])|(?:\$\(|`) {0,9}(?:pwd|git rev-parse --show-toplevel|git rev-parse --(?:absolute-)?git-dir(?=[^()`]{0,200}[)`]"?\/\.\.))[^()`]{0,200}[)`](?:"?\/\.\.(?![^/"'\s]))?/g;
const home = /\$HOME\b|\$\{HOME\}/g;
/** Shell expansions with unknown results: the innermost ones, so that the next round finds those around them. */
const shellExpansions = /\$\(([^()`$]*)\)|`([^`$]*)`|\$\{([^{}$`]*)\}|\$(?:\w+|[@*#?!-])/g;
const maxLevels = 8;
const unknown = '\0';
/** Characters that separate words, in the shell or in the programs it starts. */
const signs = /[\s`;&|()<>=,:[\]{}$!]+/;
const interpreters =
  /(?:^|\/)(?:source|\.|exec|env|[a-z]{0,3}sh|python[\d.]*|node|deno|bun|perl|ruby|php|lua|awk|osascript|pwsh)$/i;
const entersFolder = /^(?:cd|pushd|-C)$/;
/** Limits of one command. One with more is not analyzed. */
const limits = { files: 2000, folders: 50, length: 4096, names: 16 };

interface CommandWords {
  /** Words without expansions. The value says whether a word counts as a script although it has no slash. */
  readonly plain: Map<string, boolean>;
  /** Text after the last expansion of a word. */
  readonly suffixes: Set<string>;
  /** Folders that the command changes into, or searches for programs. */
  readonly folders: Set<string>;
}

/**
 * Finds the files that a command may run, in every way it could be read. Undefined if there are too many. A name that
 * the shell puts together from parts is found by its last part only.
 */
export function findCommandFiles(command: string): CommandFile[] | undefined {
  const words = parseWords(command.replace(workTreePatterns, '.').replace(home, '~'));
  const { plain, suffixes: ends, folders } = words;
  const above = new Set([...plain.keys()].flatMap((word) => [word, word.replace(/\/[^/]*$/, '')]));
  const count = plain.size + ends.size + (plain.size + ends.size) * folders.size + ends.size * above.size;
  if (count > limits.files || folders.size > limits.folders) return undefined;

  const found = new Map<string, CommandFile['kind']>();
  const add = (path: string, isKept: boolean): void => {
    if (/[^./\s-]/.test(path) && found.get(path) !== 'path') found.set(path, isKept ? 'path' : 'word');
  };
  for (const [word, isScript] of plain) {
    add(word, isScript || word.includes('/'));
    // The same file under another root, such as that of a container.
    for (const end of listPathSuffixes(word).slice(0, -1)) add(end, false);
    for (const folder of folders) add(`${folder}/${word}`, isScript || word.includes('/'));
  }
  for (const end of ends) {
    add(end, end.includes('/'));
    for (const folder of [...folders, ...above]) add(`${folder}/${end}`, false);
  }
  return [...found].map(([path, kind]) => ({ path, kind }));
}

function parseWords(text: string): CommandWords {
  const words: CommandWords = { plain: new Map(), suffixes: new Set(), folders: new Set() };
  for (const list of listReadings(text)) {
    let here = '';
    for (const [at, word] of list.entries()) {
      const before = list[at - 1] ?? '';
      if (word === '' || word.length > limits.length || words.folders.size > limits.folders) continue;
      if (word.includes(unknown)) {
        for (const end of listPathSuffixes(word.slice(word.lastIndexOf(unknown) + 1))) words.suffixes.add(end);
        continue;
      }
      const isScript = /^[^-%].{0,255}\.[a-z]\w*$/is.test(word) || (interpreters.test(before) && !word.startsWith('-'));
      words.plain.set(word, isScript || words.plain.get(word) === true);
      if (!entersFolder.test(before)) continue;
      here = here === '' ? word : `${here}/${word}`;
      words.folders.add(word).add(here);
    }
  }
  for (const [, searchPath = ''] of text.matchAll(/\bPATH=["']?([^\s;"']*)/g)) {
    for (const folder of searchPath.split(':')) if (!/^(?:\/|~|\$|$)/.test(folder)) words.folders.add(folder);
  }
  return words;
}

/** Splits a command into words, once for each way to read quotes: as glue, or around a command or a name. */
function listReadings(text: string): string[][] {
  const texts: string[] = [];
  let outer = text;
  for (let level = 0; level < maxLevels && /[$`]/.test(outer); level++) {
    outer = outer.replace(shellExpansions, (_, ...inner: unknown[]) => {
      texts.push(...inner.slice(0, 3).filter((each) => typeof each === 'string'));
      return unknown;
    });
  }
  texts.push(outer.replace(/\$\(?|`/g, unknown));
  return texts.flatMap((each) => [
    each.replace(/["'\\]/g, '').split(signs),
    each.replace(/["']/g, ' ').split(signs),
    [...each.matchAll(/"([^"]*)"|'([^']*)'/g)].flatMap(([, double, single]) => nameWithBlanks(double ?? single ?? '')),
    each
      .replaceAll('\\ ', '\u0001')
      .split(signs)
      .flatMap((word) => nameWithBlanks(word.replaceAll('\u0001', ' '))),
  ]);
}

/** Returns the text if it may be a name with blanks in it. */
const nameWithBlanks = (text: string): string[] =>
  / /.test(text) && !/[;&|<>$\n]/.test(text) && text.length < 256 ? [text] : [];

/** Lists the suffixes of a path, down to its last name. */
function listPathSuffixes(path: string): string[] {
  const names = path
    .split('/')
    .filter((name) => !/^\.{0,2}$/.test(name))
    .slice(-limits.names);
  return names.map((_, at) => names.slice(at).join('/'));
}
