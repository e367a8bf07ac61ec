import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';

export const repository = resolve(import.meta.dirname, '..', '..');

export interface SourceFile {
  /** From the repository's root. */
  readonly path: string;
  readonly text: string;
  readonly lines: number;
}

const skipped = new Set(['node_modules', 'build', 'dist', 'results']);

export function readSourceFiles(folder: string, ending = /\.(?:ts|tsx|js)$/): SourceFile[] {
  return readdirSync(join(repository, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return skipped.has(entry.name) ? [] : readSourceFiles(path, ending);
    if (!ending.test(entry.name)) return [];
    const text = readFileSync(join(repository, path), 'utf8');
    return [{ path, text, lines: text.split('\n').length - 1 }];
  });
}

/** The files of ours that a file imports, from the repository's root. */
export function listImports(file: SourceFile): string[] {
  const found = [...file.text.matchAll(/(?:from|import)\s*\(?'(\.{1,2}\/[^']+)'/g)];
  return found.map((match) => relative(repository, resolve(repository, file.path, '..', match[1] as string)));
}
