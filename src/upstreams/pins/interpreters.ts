import { readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';

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
export type Language =
  | 'javascript'
  | 'typescript'
  | 'python'
  | 'ruby'
  | 'perl'
  | 'lua'
  | 'java'
  | 'php'
  | 'shell'
  | 'tasks';

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
  python: /^-[a-zA-Z]*c$/,
  ruby: /^-[a-z]*e$/,
  perl: /^-[a-zA-Z]*[eE]$/,
  lua: /^-e$/,
  php: /^(?:-r|--run)$/,
  shell: /^(?:[-+][a-zA-Z]*c|-[cC]ommand|--command|-[eE]ncoded[cC]ommand)$/,
};
/** Options that contain the code. */
const codeWithin = /^--(?:eval|print|command)=|^(?:--[a-z-]+=)?data:/i;

/** The language that a program of this name runs; undefined for any other program. */
export function findLanguage(command: string): Language | undefined {
  const name = basename(command)
    .toLowerCase()
    .replace(/\.exe$/, '')
    .replace(/(?<![-.\d])[-.\d]+$/, '');
  return programs.find(([, names]) => names.test(name))?.[0];
}

/** True for a program that only starts another one. */
export function isStarter(command: string): boolean {
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
export function listCandidates(path: string, languages: readonly Language[], folders: boolean): string[] {
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
    if (statSync(file).size > 1 << 20) return undefined;
    const main = (JSON.parse(readFileSync(file, 'utf8')) as { readonly main?: unknown } | null)?.main;
    return typeof main === 'string' && !main.includes('\0') ? main : undefined;
  } catch {
    return undefined;
  }
}

export function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch {
    return false;
  }
}
