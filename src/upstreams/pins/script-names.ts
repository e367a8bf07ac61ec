import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Language } from './interpreters.ts';

const endings: Readonly<Partial<Record<Language, readonly string[]>>> = {
  javascript: ['.js', '.cjs', '.mjs', '.json', '.node', '.ts', '.cts', '.mts', '.tsx', '.jsx', '.wasm'],
  python: ['.py', '.pyc', '.so', '.pyd'],
  ruby: ['.rb', '.so'],
  perl: ['.pm', '.pl'],
  lua: ['.lua'],
  java: ['.class', '.java', '.jar'],
  php: ['.php'],
};

const inFolder: Readonly<Partial<Record<Language, readonly string[]>>> = {
  javascript: (endings.javascript ?? []).map((ending) => `index${ending}`),
  python: ['__main__.py', '__main__.pyc', '__init__.py', '__init__.pyc'],
  tasks: ['Makefile', 'makefile', 'GNUmakefile', 'justfile', 'Justfile', 'Taskfile.yml', 'Taskfile.yaml', 'Rakefile'],
};

/** The other names under which an interpreter looks for a word, without endings: Python looks for `a.b` as `a/b`. */
export function spellingsOf(word: string, languages: readonly Language[]): string[] {
  const spellings = [word];
  if (languages.includes('python') && /^[\w.]+$/.test(word)) spellings.push(word.replaceAll('.', '/'));
  if (languages.includes('perl') && word.includes('::')) spellings.push(word.replaceAll('::', '/'));
  if (languages.includes('java') && /^[\w.$]+$/.test(word)) spellings.push(word.replaceAll('.', '/'));
  if (languages.includes('javascript') && /^[@\w]/.test(word)) spellings.push(`node_modules/${word}`);
  // Those that run TypeScript take the name of what it becomes.
  if (languages.includes('typescript') && /\.[cm]?jsx?$/.test(word)) {
    spellings.push(word.replace(/js(x?)$/, 'ts$1'), word.replace(/jsx?$/, 'tsx'));
  }
  return spellings;
}

/** The files that an interpreter tries when it is given this path. */
export function triedFor(path: string, languages: readonly Language[], folders: boolean): string[] {
  const tried = [path, ...languages.flatMap((language) => (endings[language] ?? []).map((ending) => path + ending))];
  if (!folders || !isFolder(path)) return tried;
  tried.push(...languages.flatMap((language) => (inFolder[language] ?? []).map((name) => join(path, name))));
  return languages.includes('javascript') ? [...tried, ...triedByPackage(path)] : tried;
}

/** `main` may name a folder in turn. It cannot lead further than that. */
function triedByPackage(folder: string): string[] {
  const file = join(folder, 'package.json');
  const main = mainOf(file);
  if (main === undefined) return [file];
  const path = join(folder, main);
  const names = ['', ...(endings.javascript ?? [])];
  return [
    file,
    ...names.map((ending) => path + ending),
    ...(inFolder.javascript ?? []).map((name) => join(path, name)),
  ];
}

function mainOf(file: string): string | undefined {
  try {
    if (statSync(file).size > 1 << 20) return undefined;
    const main = (JSON.parse(readFileSync(file, 'utf8')) as { readonly main?: unknown } | null)?.main;
    return typeof main === 'string' && !main.includes('\0') ? main : undefined;
  } catch {
    return undefined;
  }
}

/** Whether there is a folder at this path. */
export function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  } catch {
    return false;
  }
}
