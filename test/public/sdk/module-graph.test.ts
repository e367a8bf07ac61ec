import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../../structure/source-files.ts';

const room = join(repository, 'dist', 'public', 'sdk');

/** Everything that is loaded with a file, read from what was built, and what it names that is not ours. */
function walk(file: string, files = new Set<string>(), outside = new Set<string>()) {
  if (files.has(file)) return { files, outside };
  files.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, name] of text.matchAll(/(?:^(?:import|export)\b(?:[^'";]*\bfrom)?|\bimport\() ?['"]([^'"]+)['"]/gm)) {
    if (name?.startsWith('.')) walk(resolve(dirname(file), ofThisKind(name, file)), files, outside);
    else outside.add(name as string);
  }
  return { files, outside };
}

function ofThisKind(name: string, importer: string): string {
  return importer.endsWith('.d.ts') ? name.replace(/\.[jt]s$/, '.d.ts') : name;
}

/** The files of ours, and of others, that went into one that was built. */
function sourcesOf(file: string): string[] {
  // A file without code of its own, which only passes exports on, has no map.
  if (!existsSync(`${file}.map`)) return [];
  const { sources } = JSON.parse(readFileSync(`${file}.map`, 'utf8')) as { sources: string[] };
  return sources.map((source) => relative(repository, resolve(dirname(file), source)));
}

test('P11: the SDK loads only itself, jose and Node', () => {
  const { files, outside } = walk(join(room, 'index.js'));
  for (const file of files) expect(readFileSync(file, 'utf8'), file).not.toMatch(/\bimport\s*\(|\brequire\s*\(/);
  const sources = [...files].flatMap(sourcesOf);
  expect(sources.filter((path) => !path.startsWith('src/public/sdk/'))).toEqual([]);
  expect(sources.length).toBeGreaterThan(5);
  expect([...outside].filter((name) => !name.startsWith('node:'))).toEqual(['jose']);
});

test('its type declarations need nothing more', () => {
  const { outside } = walk(join(room, 'index.js'));
  const declared = walk(join(room, 'index.d.ts'));
  expect(declared.files.size).toBeGreaterThan(5);
  expect([...declared.outside].filter((name) => !outside.has(name))).toEqual([]);
});
