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
  const shelves = /^docs\/(?:getting-started|tutorial|how-to|reference|explanation|contributing)\//;
  const missing = pages.filter(({ path }) => shelves.test(path) && !index.includes(`](${path.slice('docs/'.length)})`));
  expect(missing.map(({ path }) => path)).toEqual([]);
});

const withoutBlocks = (text: string) => text.replace(/^ *```[\s\S]*?^ *```$/gm, '');

/** The anchors of a page, by the rule of GitHub: lower case, no punctuation, "-" for blanks, a number for repeated ones. */
function listAnchors(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of withoutBlocks(text).matchAll(/^#{1,6} (.+)$/gm)) {
    const words = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = words
      .replace(/[^\p{L}\p{N}_ -]/gu, '')
      .trim()
      .replaceAll(' ', '-');
    let number = 1;
    for (let anchor = slug; ; anchor = `${slug}-${number++}`) {
      if (anchors.has(anchor)) continue;
      anchors.add(anchor);
      break;
    }
  }
  return anchors;
}

test('every link to a page, a heading or a file of the repository leads somewhere', () => {
  expect([...listAnchors('# `a-b/c`: D?\n## D\n## [D](x.md)\n')]).toEqual(['a-bc-d', 'd', 'd-1']);
  const names = ['ARCHITECTURE', 'GLOSSARY', 'SECURITY', 'CONTRIBUTING'].map((name) => `${name}.md`);
  const others = names.map((path) => ({ path, text: readFileSync(join(repository, path), 'utf8') }));
  const all = [...pages, ...others];
  const broken = all.flatMap((page) =>
    [...withoutBlocks(page.text).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].flatMap(
      ([, target = '', anchor]) => {
        const path = target === '' ? page.path : join(page.path, '..', target);
        const linked = all.find((each) => each.path === path);
        const isThere = linked !== undefined || existsSync(join(repository, path));
        const hasAnchor = anchor === undefined || (linked !== undefined && listAnchors(linked.text).has(anchor));
        return isThere && hasAnchor ? [] : [`${page.path} → ${target}${anchor === undefined ? '' : `#${anchor}`}`];
      },
    ),
  );
  expect(broken).toEqual([]);
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
    .flatMap(({ text }) => [...text.matchAll(/```tsx?\s+\/\/ (\S+)\n([\s\S]*?)```/g)]);
  expect(excerpts.length).toBe(pages.filter(({ path }) => path.startsWith('docs/contributing/')).length);
  for (const [, file = '', code = ''] of excerpts) {
    expect(flatten(readFileSync(join(repository, file), 'utf8')), file).toContain(flatten(code).trim());
  }
});
