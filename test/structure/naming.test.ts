import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';
import { readSourceFiles } from './source-files.ts';

const files = readSourceFiles('src');

/** The longest function, in lines. */
const maxFunctionLines = 150;

/** Exported functions that may have a name of one word: the stages that are named so in the documentation, and `main`. */
const oneWordFunctions = ['record', 'authenticate', 'authorize', 'admit', 'forward', 'main'];

/** Every match of the expression's first group in `src/`, with its file and line. */
function findInSource(expression: RegExp): { name: string; place: string }[] {
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(expression)].map((match) => ({
      name: match[1] as string,
      place: `${path}:${text.slice(0, match.index).split('\n').length}`,
    })),
  );
}

test('an exported type has a name of its own', () => {
  const places = new Map<string, string[]>();
  for (const { name, place } of findInSource(/^export (?:interface|type|class|abstract class) (\w+)/gm)) {
    places.set(name, [...(places.get(name) ?? []), place]);
  }
  expect([...places].filter(([, found]) => found.length > 1)).toEqual([]);
});

test('a doc comment begins with its subject', () => {
  const relative = findInSource(/\/\*\*\s*(?:\*\s*)?(What|Where|Of|Those|Whoever|Whom|Whose|Which|Who|Whatever)\b/g);
  expect(relative).toEqual([]);
});

test('the name of an exported function says what it does to what', () => {
  const functions = [
    ...findInSource(/^export (?:async )?function\*? ([a-z0-9]+)\b(?![A-Z])/gm),
    ...findInSource(
      /^export const ([a-z0-9]+)(?:: [^=\n]+)? = (?:async )?(?:<[^(\n]*>)?(?:\([^\n]*=>|\w+ =>|function)/gm,
    ),
  ];
  expect(functions.filter(({ name }) => !oneWordFunctions.includes(name))).toEqual([]);
});

test('functions stay short', () => {
  const long = files.flatMap(({ path, text }) =>
    readFunctions(text)
      .filter(({ lines }) => lines > maxFunctionLines)
      .map(({ line, lines }) => `${path}:${line} has ${lines} lines`),
  );
  expect(long).toEqual([]);
});

test('src/ has few files at its root, and no crowded folder', () => {
  const folders = new Map<string, number>();
  for (const { path } of files) {
    const folder = path.slice(0, path.lastIndexOf('/'));
    folders.set(folder, (folders.get(folder) ?? 0) + 1);
  }
  expect(folders.get('src')).toBeLessThanOrEqual(3);
  expect([...folders].filter(([, count]) => count > 25)).toEqual([]);
  expect(files.length).toBeLessThanOrEqual(650);
});

/** The functions of a source text with the line they begin at and their length in lines. */
function readFunctions(text: string): { line: number; lines: number }[] {
  const found: { line: number; lines: number }[] = [];
  const lineAt = (offset: number) => text.slice(0, offset).split('\n').length;
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    const { type, start, end } = node as { type?: unknown; start: number; end: number };
    if (typeof type === 'string' && /Function(?:Declaration|Expression)$/.test(type)) {
      const line = lineAt(start);
      found.push({ line, lines: lineAt(end) - line + 1 });
    }
    Object.values(node).forEach(visit);
  };
  visit(parseAst(text, { lang: 'ts' }));
  return found;
}
