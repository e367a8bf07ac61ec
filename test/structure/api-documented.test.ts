import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { repository } from './source-files.ts';

test('the page of the control API says what the route table says (node scripts/write-api-page.js)', async () => {
  const page = readFileSync(join(repository, 'docs/reference/api.md'), 'utf8');
  const script = pathToFileURL(join(repository, 'scripts/write-api-page.js')).href;
  const { renderPage } = (await import(script)) as { renderPage(page: string): Promise<string> };
  expect(page).toBe(await renderPage(page));
});
