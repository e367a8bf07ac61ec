import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compileGlob } from '../../../src/lib/text/glob.ts';
import { parseExpression } from '../../../src/workspaces/search/expression.ts';
import { grepFiles } from '../../../src/workspaces/search/grep.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts } from '../../proof.ts';
import { makeFolder, writeFiles } from './make-folder.ts';
import { createSandboxedRipgrep, openFiles } from './open-files.ts';

const ripgrep = createSandboxedRipgrep();

const name = fc.constantFrom('a', 'b', 'ab', 'A', 'é', '.h', 'x.log', 'build', '.env', 'a b', 'b.ts');
const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join('/'));
const glob = fc.constantFrom(...'* *.log a b/ /a /a/b **/b a/** build/ .h a?b [ab] [!a] x.* *b* {a,b} A é'.split(' '));
const ignoreLine = fc.tuple(fc.constantFrom('', '', '!', '/'), glob).map(([mark, each]) => mark + each);
const ignoreFile = fc.array(ignoreLine, { maxLength: 4 }).map((lines) => `${lines.join('\n')}\n`);
const characters = ['a', 'b', 'B', 'é', 'É', ' ', '\t', '\n', '\n', '\r\n', '\r', 'K', 'K', '1', '_', '.', '😀', '\v'];
const content = fc.array(fc.constantFrom(...characters), { maxLength: 20 }).map((all) => all.join(''));
const bytes = fc.oneof(
  { weight: 8, arbitrary: content.map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: content.map((text) => Buffer.from(`\ufeff${text}`, 'utf16le')) },
  { weight: 1, arbitrary: content.map((text) => Buffer.from(text, 'latin1')) },
  { weight: 1, arbitrary: content.map((text) => Buffer.from(`${text}\0${text}`)) },
);
const tree = fc.tuple(
  fc.dictionary(path, bytes, { minKeys: 1, maxKeys: 12 }),
  fc.dictionary(fc.constantFrom('', 'a/', 'b/', 'a/b/', 'build/'), ignoreFile, { maxKeys: 3 }),
  fc.option(ignoreFile, { nil: undefined }),
);

const atom = fc.constantFrom(
  ...['a', 'b', 'é', 'k', '.', '\\w', '\\W', '\\d', '\\s', '\\S', '[ab]', '[^a]', '[é-ÿ]', '\\r', '😀', '\\t', ' '],
  ...['\\p{Lu}', '\\PL', '[[:alpha:]]', '[^\\W_]', '\\.', '(?i:k)', '(?i:É)', 'K', '[\\s1]'],
);
const repeated = fc.tuple(atom, fc.constantFrom('', '', '', '*', '+', '?', '{2}', '*?'));
const anchor = fc.constantFrom('', '', '', '^', '$', '\\b', '\\B');
const pattern = fc
  .array(fc.tuple(anchor, repeated, anchor, fc.constantFrom('', '', '|')), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.map(([before, [one, times], after, or]) => `${before}${one}${times}${after}${or}`).join(''));

test.skipIf(!hasBwrap())('both engines give the same results', async () => {
  const folder = makeFolder({});
  const quick = openFiles(folder, ripgrep);
  const reading = openFiles(folder);
  await fc.assert(
    fc.asyncProperty(
      tree,
      pattern,
      fc.boolean(),
      fc.option(glob, { nil: undefined }),
      fc.constantFrom('.', '.', '.', 'a'),
      async ([files, ignoring, exclude], searched, caseSensitive, among, start) => {
        for (const each of readdirSync(folder)) rmSync(join(folder, each), { recursive: true });
        const root = makeRandomFolder(files, ignoring, exclude);
        writeFiles(folder, root);
        const query = {
          expression: parseExpression(searched, caseSensitive),
          path: start,
          glob: among === undefined ? undefined : compileGlob(among, { matchAnyFolder: true }),
          contextLines: 1,
          limit: 1000,
        };
        const ask = (way: typeof quick) => grepFiles(way, query).catch((error: { code?: string }) => error.code);
        expect(await ask(quick)).toEqual(await ask(reading));
      },
    ),
    { numRuns: counts(16, 600) },
  );
  expect(ripgrep.answers.nothing).toBe(0);
  expect(ripgrep.answers.names).toBeGreaterThan(10);
});

/** Makes a folder; a path that must be a folder cannot be a file as well. */
function makeRandomFolder(
  files: Readonly<Record<string, Uint8Array>>,
  ignoring: Readonly<Record<string, string>>,
  exclude: string | undefined,
): Record<string, Uint8Array | string> {
  const paths = Object.keys(files);
  const folders = [...paths, ...Object.keys(ignoring).map((folder) => `${folder}x`)];
  const kept = paths.filter((each) => !folders.some((other) => other.startsWith(`${each}/`)));
  return {
    ...Object.fromEntries(kept.map((each) => [each, files[each] as Uint8Array])),
    ...Object.fromEntries(Object.entries(ignoring).map(([folder, text]) => [`${folder}.gitignore`, text])),
    ...(exclude === undefined ? {} : { '.git/info/exclude': exclude }),
  };
}
