import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from '../house/source-files.ts';

const room = join(repository, 'dist', 'sdk');

/** Everything that is loaded with the entry, read from what was built, and what it names that is not ours. */
function walk(file: string, files = new Set<string>(), outside = new Set<string>()) {
  if (files.has(file)) return { files, outside };
  files.add(file);
  const text = readFileSync(file, 'utf8');
  for (const [, name] of text.matchAll(/^(?:import|export)\b(?:[^'";]*\bfrom)? ?['"]([^'"]+)['"]/gm)) {
    if (name?.startsWith('.')) walk(resolve(dirname(file), name), files, outside);
    else outside.add(name as string);
  }
  expect(text, file).not.toMatch(/\bimport\s*\(|\brequire\s*\(/);
  return { files, outside };
}

test('P11: what a tool author loads is this room, jose and Node itself', () => {
  const { files, outside } = walk(join(room, 'index.js'));
  expect([...files].map((file) => relative(room, file)).filter((path) => path.startsWith('..'))).toEqual([]);
  expect(files.size).toBeGreaterThan(10);
  expect([...outside].filter((name) => !name.startsWith('node:'))).toEqual(['jose']);
});

test('its types ask for nothing more', () => {
  const { files, outside } = walk(join(room, 'index.js'));
  const declared = new Set<string>();
  for (const file of files) {
    const types = readFileSync(file.replace(/\.js$/, '.d.ts'), 'utf8');
    for (const [, name] of types.matchAll(/(?:from|import\()\s*['"]([^.'"][^'"]*)['"]/g)) declared.add(name as string);
  }
  expect([...declared].filter((name) => !outside.has(name))).toEqual([]);
});
