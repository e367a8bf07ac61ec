import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, delimiter, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readSmallFile } from '../../lib/fs/if-present.ts';

const defaultPath = '/usr/local/bin:/usr/bin:/bin';
const maxPathLength = 4096;

/** Names of files that servers write to, or that are too large to read at each start. */
const dataNames =
  /\.(?:jsonl?|ndjson|db|sqlite3?|duckdb|kuzu|log|csv|tsv|txt|md|gguf|safetensors|onnx|parquet|sock|pid|lock)$/i;

/** A command line that may name more paths than this is not approved. */
const maxPaths = 5000;
/** Neither is one with more characters. */
const maxCharacters = 256 << 10;

/** The reason for a server that names too many files. */
export const tooManyFiles = 'its command line names too many files to check them all';

interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

/**
 * Finds every path that an argument may mean: as written, as its interpreter completes it, from the folder of the server
 * or from a folder of another argument (`--directory /srv/x run server.py`). Missing files are included, so that they
 * count as a change when they appear. Undefined where there are too many.
 */
export function findArgFiles({ command, args }: CommandLine, folder: string): string[] | undefined {
  if (isTooLong(args)) return undefined;
  const words = args.map(splitWords);
  const count = new Set(words.flat()).size;
  if (count > maxPaths) return undefined;
  const languages = findLanguages(command, words.flat());
  const script = findLanguage(command) === undefined ? args.length : indexOfScript(args);
  const bases = findBaseFolders(words.flat(), folder);
  if (bases.length * count > maxPaths) return undefined;
  const own = readsFolder(command) ? listCandidates(folder, languages, true).filter((path) => path !== folder) : [];
  const named = words.flatMap((each, index) => resolvePaths(each, bases, languages, index <= script));
  return [...new Set([...named, ...own])].sort();
}

/** Finds the files in the values of variables. Only a value that looks like a path is completed by the interpreter. */
export function findValueFiles(line: CommandLine, values: Iterable<string>, folder: string): string[] | undefined {
  const texts = [...values];
  if (isTooLong([...line.args, ...texts])) return undefined;
  const words = texts.flatMap(splitWords);
  if (words.length > maxPaths) return undefined;
  const languages = findLanguages(line.command, line.args.flatMap(splitWords));
  const paths = words.filter((word) => /^[./~]/.test(word));
  const plain = words.filter((word) => !/^[./~]/.test(word));
  return [
    ...new Set([...resolvePaths(paths, [folder], languages, false), ...resolvePaths(plain, [folder], [], false)]),
  ];
}

function findLanguages(command: string, words: readonly string[]): Language[] {
  // The names of other task runners are ordinary words.
  const named = words.filter((word) => findLanguage(word) !== 'tasks' || /make$/.test(word));
  const found = [command, ...named].flatMap((word) => findLanguage(word) ?? []);
  return [...new Set(found.includes('typescript') ? [...found, 'javascript' as const] : found)];
}

/** Finds the languages of the program that a command line starts, also behind `env` and the like. */
export function findStartedLanguages({ command, args }: CommandLine): Language[] {
  return findLanguages(command, isStarter(command) ? args.flatMap(splitWords) : []);
}

function isTooLong(texts: readonly string[]): boolean {
  return texts.reduce((sum, { length }) => sum + length, 0) > maxCharacters;
}

function findBaseFolders(words: readonly string[], folder: string): string[] {
  const folders = words.filter((word) => !word.startsWith('-')).map((word) => resolve(folder, word));
  return [folder, ...new Set(folders.filter((path) => path !== folder && isFolder(path)))];
}

function resolvePaths(
  words: readonly string[],
  bases: readonly string[],
  languages: readonly Language[],
  folders: boolean,
): string[] {
  const usable = words.filter((word) => !word.startsWith('-')).flatMap((word) => listSpellings(word, languages));
  const paths = usable.flatMap((word) =>
    isAbsolute(word) ? [resolve(word)] : bases.map((base) => resolve(base, word)),
  );
  return [...new Set(paths)].flatMap((path) => listCandidates(path, languages, folders));
}

/** Options of interpreters that take no value, so that the word after them is the script. */
const flagsWithoutValue =
  /^(?:--|-[uBEIsSOiv]|--(?:enable-source-maps|no-[\w-]+|inspect(?:-brk)?|watch|use-system-ca|experimental-(?:strip|transform)-types|experimental-vm-modules))$|=/;

/**
 * Finds the last argument that may be a script; later ones belong to the script. The word after an option may be its
 * value, so it is not taken for the script.
 */
function indexOfScript(args: readonly string[]): number {
  const index = args.findIndex((arg, at) => {
    const before = args[at - 1] ?? '--';
    return !arg.startsWith('-') && (!before.startsWith('-') || flagsWithoutValue.test(before)) && isFile(arg);
  });
  // A script may start the program that follows it.
  const startsMore = args
    .slice(index + 1)
    .some((arg) => splitWords(arg).some((word) => findLanguage(word) !== undefined));
  return index === -1 || startsMore ? args.length : index;
}

/** True for programs that take their instructions from a file in their folder. */
function readsFolder(command: string): boolean {
  return /(?:^|\/)(?:npm|pnpm|yarn|bun|make|gmake|just|task|rake)$/.test(command);
}

function isFile(path: string): boolean {
  try {
    return isAbsolute(path) && statSync(path).isFile();
  } catch {
    return false;
  }
}

/** True for a file that is data by its name and is not executable. */
export function isDataFile(path: string): boolean {
  if (!dataNames.test(path)) return false;
  try {
    // An interpreter uses the name that a link leads to.
    return dataNames.test(realpathSync.native(path)) && (statSync(path).mode & 0o111) === 0;
  } catch {
    return true;
  }
}

/**
 * Splits an argument or value into every word it may be read as: the whole text, the value of an option, the words of a
 * shell command or other code, and each of them without URL encoding.
 */
function splitWords(text: string): string[] {
  const texts = text.includes('%') ? [text, decodePercent(text)] : [text];
  const words = new Set<string>();
  for (const each of texts) {
    const parts = [
      each,
      ...splitShellWords(each),
      ...each.split(/[\s'"`;|&<>(){}[\],\\]+/),
      ...each.split(/[\s'"`;|&<>(){}[\],\\=:@]+/),
    ];
    for (const part of parts) for (const word of listForms(part)) words.add(word);
  }
  return [...words].filter((word) => word !== '' && word.length < maxPathLength && !word.includes('\0'));
}

/** Splits a text as a shell does: without quotes and backslashes, at operators. */
function splitShellWords(text: string): string[] {
  const piece = /'[^']*'|"(?:[^"\\]|\\.)*"|\\.|[^\s'"\\;|&<>()`]+/gsy;
  const words: string[] = [];
  let word = '';
  for (let at = 0; at < text.length; ) {
    piece.lastIndex = at;
    const found = piece.exec(text)?.[0];
    if (found === undefined) {
      words.push(word);
      word = '';
      at++;
      continue;
    }
    word += unquotePiece(found);
    at += found.length;
  }
  return [...words, word];
}

function unquotePiece(piece: string): string {
  if (piece.startsWith("'")) return piece.slice(1, -1);
  if (piece.startsWith('"')) return piece.slice(1, -1).replace(/\\(["\\$`])/g, '$1');
  return piece.startsWith('\\') ? piece.slice(1) : piece;
}

/** Lists the forms of a word: itself, the value of an option (`--import=x`, `-r./x`), and the path of a file URL. */
function listForms(word: string): string[] {
  const equals = word.indexOf('=');
  const values = equals === -1 ? [word] : [word, word.slice(equals + 1)];
  if (/^-[^-]/.test(word)) values.push(word.slice(2));
  if (word.startsWith('-') && word.includes('/')) values.push(word.slice(word.search(/\.{0,2}\//)));
  return values.flatMap((value) => {
    const plain = value.replace(/[?#].*$/s, '');
    const forms = plain === value ? [value] : [value, plain];
    return forms.flatMap((form) => [form, ...fileUrlPaths(form), ...expandKnownFolder(form)]);
  });
}

function fileUrlPaths(word: string): string[] {
  if (!/^file:/i.test(word)) return [];
  try {
    return [fileURLToPath(new URL(word))];
  } catch {
    return [];
  }
}

/** Expands `~/x`, `$HOME/x` and `$PWD/x` as a shell does. */
function expandKnownFolder(word: string): string[] {
  const [, folder = '', rest = ''] = /^(~|\$HOME|\$\{HOME\}|\$PWD|\$\{PWD\})\/+(.*)$/s.exec(word) ?? [];
  if (folder === '') return [];
  return [folder.includes('PWD') ? rest : `${homedir()}/${rest}`];
}

function decodePercent(text: string): string {
  // A percent sign that encodes nothing stays as it is.
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (codes) => Buffer.from(codes.replaceAll('%', ''), 'hex').toString('utf8'));
}

const extensions: Readonly<Partial<Record<Language, readonly string[]>>> = {
  javascript: ['.js', '.cjs', '.mjs', '.json', '.node', '.ts', '.cts', '.mts', '.tsx', '.jsx', '.wasm'],
  python: ['.py', '.pyc', '.so', '.pyd'],
  ruby: ['.rb', '.so'],
  perl: ['.pm', '.pl'],
  lua: ['.lua'],
  java: ['.class', '.java', '.jar'],
  php: ['.php'],
};

const folderFiles: Readonly<Partial<Record<Language, readonly string[]>>> = {
  javascript: (extensions.javascript ?? []).map((ending) => `index${ending}`),
  python: ['__main__.py', '__main__.pyc', '__init__.py', '__init__.pyc'],
  tasks: ['Makefile', 'makefile', 'GNUmakefile', 'justfile', 'Justfile', 'Taskfile.yml', 'Taskfile.yaml', 'Rakefile'],
};

/** A language whose programs find a script under more names than the one that is written. */
type Language = 'javascript' | 'typescript' | 'python' | 'ruby' | 'perl' | 'lua' | 'java' | 'php' | 'shell' | 'tasks';

const programs: readonly (readonly [Language, RegExp])[] = [
  ['javascript', /^(?:node|nodejs|npm|pnpm|yarn)$/],
  ['typescript', /^(?:bun|deno|tsx|ts-node(?:-\w+)?|jiti|esno|vite-node|nodemon)$/],
  ['python', /^(?:python|pythonw|pypy|uv|poetry|pdm|hatch|pipenv|ipython|mcp|fastmcp)$/],
  ['ruby', /^(?:ruby|jruby|truffleruby)$/],
  ['perl', /^perl$/],
  ['lua', /^(?:lua|luajit)$/],
  ['java', /^java$/],
  ['php', /^php$/],
  ['shell', /^(?:sh|bash|dash|zsh|ksh|mksh|fish|ash|csh|tcsh|busybox|pwsh|powershell|nu|xonsh)$/],
  ['tasks', /^(?:make|gmake|just|task|rake)$/],
];

/** Programs that start the one that their arguments name. */
const starters =
  /^(?:env|nice|ionice|nohup|timeout|setsid|stdbuf|xargs|sudo|doas|su|exec|time|chroot|unshare|flock|script)$/;

/** Options after which comes code, by language. */
const codeOptions: Readonly<Partial<Record<Language, RegExp>>> = {
  javascript: /^(?:-[a-z]*[ep]|--eval|--print|eval)$/,
  typescript: /^(?:-[a-z]*[ep]|--eval|--print|eval)$/,
  python: /^-(?:[a-zA-Z]*c$|[bBdEhiIOPqRsSuvVx]*c)/,
  ruby: /^-[a-z]*e$/,
  perl: /^-[a-zA-Z]*[eE]$/,
  lua: /^-e$/,
  php: /^(?:-r|--run)$/,
  shell: /^(?:[-+][a-zA-Z]*c|-[cC]ommand|--command|-[eE]ncoded[cC]ommand)$/,
};
/** Options that contain the code. */
const codeWithin = /^--(?:eval|print|command)=|^(?:--[a-z-]+=)?data:/i;

/** The language that a program of this name runs; undefined for any other program. */
function findLanguage(command: string): Language | undefined {
  const name = basename(command)
    .toLowerCase()
    .replace(/\.exe$/, '')
    .replace(/(?<![-.\d])[-.\d]+$/, '');
  return programs.find(([, names]) => names.test(name))?.[0];
}

/** True for a program that only starts another one. */
function isStarter(command: string): boolean {
  return starters.test(basename(command));
}

/** The option of a command line after which comes code, such as `-c`; undefined where there is none. */
export function findCodeOption(args: readonly string[], languages: readonly Language[]): string | undefined {
  return args.find(
    (arg) =>
      codeWithin.test(arg) || /^data:/i.test(arg) || languages.some((language) => codeOptions[language]?.test(arg)),
  );
}

/** Lists the names under which an interpreter looks for a word, without extensions: Python reads `a.b` as `a/b`. */
export function listSpellings(word: string, languages: readonly Language[]): string[] {
  const spellings = [word];
  if (languages.includes('python') && /^[\w.]+$/.test(word)) spellings.push(word.replaceAll('.', '/'));
  if (languages.includes('perl') && word.includes('::')) spellings.push(word.replaceAll('::', '/'));
  if (languages.includes('java') && /^[\w.$]+$/.test(word)) spellings.push(word.replaceAll('.', '/'));
  if (languages.includes('javascript') && /^[@\w]/.test(word)) spellings.push(`node_modules/${word}`);
  // TypeScript runners also accept the name of the compiled file.
  if (languages.includes('typescript') && /\.[cm]?jsx?$/.test(word)) {
    spellings.push(word.replace(/js(x?)$/, 'ts$1'), word.replace(/jsx?$/, 'tsx'));
  }
  return spellings;
}

/** Lists the files that an interpreter tries for this path. */
function listCandidates(path: string, languages: readonly Language[], folders: boolean): string[] {
  const tried = [path, ...languages.flatMap((language) => (extensions[language] ?? []).map((ending) => path + ending))];
  if (!folders || !isFolder(path)) return tried;
  tried.push(...languages.flatMap((language) => (folderFiles[language] ?? []).map((name) => join(path, name))));
  return languages.includes('javascript') ? [...tried, ...listPackageCandidates(path)] : tried;
}

/** Lists the files that `package.json` can lead to. `main` may name a folder. */
function listPackageCandidates(folder: string): string[] {
  const file = join(folder, 'package.json');
  const main = readPackageMain(file);
  if (main === undefined) return [file];
  const path = join(folder, main);
  const endings = ['', ...(extensions.javascript ?? [])];
  const inFolder = (folderFiles.javascript ?? []).map((name) => join(path, name));
  return [file, ...endings.map((ending) => path + ending), ...inFolder];
}

function readPackageMain(file: string): string | undefined {
  try {
    const main = (JSON.parse(readSmallFile(file, 1 << 20) ?? '{}') as { readonly main?: unknown } | null)?.main;
    return typeof main === 'string' && !main.includes('\0') ? main : undefined;
  } catch {
    return undefined;
  }
}

/** Finds the program of a command, without reading it. */
export function locateProgram(
  command: string,
  searchPath: string | undefined,
): { readonly path: string; readonly real: string } | { readonly missing: string } {
  const path = command.includes('/') ? command : findOnPath(command, searchPath ?? defaultPath);
  if (typeof path !== 'string') return path;
  try {
    return { path, real: realpathSync.native(path) };
  } catch {
    return { missing: 'there is no such program' };
  }
}

/** Searches PATH as the system does, but refuses relative entries. */
function findOnPath(command: string, searchPath: string): string | { missing: string } {
  for (const entry of searchPath.split(delimiter)) {
    if (!isAbsolute(entry)) {
      return { missing: 'PATH has a relative entry before it, so a file in the workspace could replace it' };
    }
    const path = join(entry, command);
    if (isProgram(path)) return path;
  }
  return { missing: 'there is no such program on PATH' };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

export function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch {
    return false;
  }
}
