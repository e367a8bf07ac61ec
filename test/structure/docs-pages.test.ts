import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { layerNames } from './layers.ts';
import { readSourceFiles, repository } from './source-files.ts';

/** What the pages show is run by test/journeys/pages. This is about what they name. */
const pages = [
  ...readSourceFiles('docs', /\.md$/),
  { path: 'README.md', text: await readFile(join(repository, 'README.md'), 'utf8') },
];

function blocks(path: string, language: string): string[] {
  const text = pages.find((page) => page.path === path)?.text ?? '';
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    (match) => match[1] as string,
  );
}

test('every JSON block parses', () => {
  for (const page of pages)
    for (const block of blocks(page.path, 'json')) expect(() => JSON.parse(block)).not.toThrow();
});

// Elsewhere npx would run the package of that name on the registry, which is not ours.
test('only pages about the checkout say npx ambit', () => {
  const inCheckout = ['README.md', 'docs/tutorial/first-session.md'];
  const saying = pages.filter(({ text }) => /npx ambit(?!-mcp)/.test(text));
  expect(saying.map(({ path }) => path).sort()).toEqual(inCheckout.sort());
});

test('every page is in the index', () => {
  const index = pages.find(({ path }) => path === 'docs/README.md')?.text ?? '';
  const shelves = /^docs\/(?:tutorial|how-to|reference|explanation|contributing)\//;
  const missing = pages.filter(({ path }) => shelves.test(path) && !index.includes(`](${path.slice('docs/'.length)})`));
  expect(missing.map(({ path }) => path)).toEqual([]);
});

test('every link to a page or file of the repository leads somewhere', () => {
  const names = ['ARCHITECTURE', 'GLOSSARY', 'SECURITY', 'CONTRIBUTING'].map((name) => `${name}.md`);
  const others = names.map((path) => ({ path, text: readFileSync(join(repository, path), 'utf8') }));
  for (const page of [...pages, ...others]) {
    for (const [, target] of page.text.matchAll(/\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g)) {
      const path = join(page.path, '..', target as string);
      expect(existsSync(join(repository, path)), `${page.path} → ${target}`).toBe(true);
    }
  }
});

test('every path of the source that a page for contributors names exists', () => {
  const architecture = { path: 'ARCHITECTURE.md', text: readFileSync(join(repository, 'ARCHITECTURE.md'), 'utf8') };
  const path = new RegExp(`\`((?:src|test|scripts|${layerNames.join('|')})/[a-z0-9./-]+)\``, 'g');
  const named = [architecture, ...pages.filter((page) => page.path.startsWith('docs/contributing/'))].flatMap((page) =>
    [...page.text.matchAll(path)].map(([, found = '']) => `${page.path}: ${found}`),
  );
  expect(named.length).toBeGreaterThan(30);
  const exists = (found: string) => ['', 'src'].some((folder) => existsSync(join(repository, folder, found)));
  // Files that a reader of these pages makes.
  const isExample = (found: string) => /firejail|postgres/.test(found);
  expect(named.filter((each) => !isExample(each) && !exists(each.replace(/^.*: /, '')))).toEqual([]);
});

test('the code on the pages for contributors is in the source', () => {
  const flatten = (text: string) => text.replace(/\s+/g, ' ');
  const excerpts = pages
    .filter(({ path }) => path.startsWith('docs/contributing/'))
    .flatMap(({ text }) => [...text.matchAll(/```ts\s+\/\/ (\S+)\n([\s\S]*?)```/g)]);
  expect(excerpts.length).toBe(pages.filter(({ path }) => path.startsWith('docs/contributing/')).length);
  for (const [, file = '', code = ''] of excerpts) {
    expect(flatten(readFileSync(join(repository, file), 'utf8')), file).toContain(flatten(code).trim());
  }
});
