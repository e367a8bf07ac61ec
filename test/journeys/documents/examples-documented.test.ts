import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readSourceFiles, repository } from '../../structure/source-files.ts';
import { readPage } from '../pages/read-page.ts';

/** The files of examples that a page shows, each below a paragraph that ends with its name. */
const listFiles = (page: string) =>
  readPage(page).flatMap(({ kind, file = '', text }) => (kind === 'file' ? [{ file, text }] : []));
const servers = listFiles('docs/explanation/example-servers.md');
const folder = 'examples/parachute/';
const orchestrators = listFiles('docs/how-to/run-agents-from-an-orchestrator.md').map(({ file, text }) => ({
  file: folder + file,
  text,
}));

test('the pages show four example servers, and every file of the orchestrators', () => {
  expect(servers).toHaveLength(4);
  const files = readSourceFiles(folder, /./).map(({ path }) => path);
  expect(orchestrators.map(({ file }) => file).sort()).toEqual(files.sort());
});

test.each([...servers, ...orchestrators])('$file is shown as it is, in at most 80 lines', ({ file, text }) => {
  expect(text).toBe(readFileSync(join(repository, file), 'utf8'));
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(80);
});
