import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { repository } from '../../structure/source-files.ts';
import { createTestFiles } from './file-tool-fixture.ts';
import { createSearchTools } from './search-files.ts';

function blocksOf(page: string) {
  const text = readFileSync(join(repository, page), 'utf8');
  return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, content]) => ({
    language: language as string,
    text: content as string,
  }));
}

const blocks = blocksOf('docs/how-to/from-edit-file-to-session-edit-file.md');

test('W11: the calls of the reference, in order, are answered as it says', async () => {
  const shown = blocksOf('docs/reference/tools.md');
  const all = createTestFiles();
  const search = createSearchTools(all.files);
  try {
    all.put('src/app.js', '// The address is in the settings.\nexport const port = 8080;\n');
    all.put('old/note.md', 'x');
    all.put('.env', 'SECRET=1\n');
    const called = new Set<string>();
    for (const [i, { language, text }] of shown.entries()) {
      if (language !== 'json') continue;
      const { name, arguments: args } = JSON.parse(text) as { name: string; arguments: Record<string, unknown> };
      const tool = name.replace(/^session_/, '');
      if (tool === 'codebase_search') {
        const readState = async () => (await search.data<{ index: { state: string } }>(tool, args)).index.state;
        await expect.poll(readState, { timeout: 30_000 }).toBe('ready');
      }
      const { content, isError } = await (/list|search/.test(tool) ? search.call(tool, args) : all.call(tool, args));
      expect(isError, text).not.toBe(true);
      const next = shown[i + 1];
      if (next?.language === 'text') expect(content[0].text.trimEnd(), text).toBe(next.text.trimEnd());
      called.add(name);
    }
    expect(called.size).toBe(9);
  } finally {
    await all.close();
  }
});

test('W11: the configuration of the guide holds, and names tools that there are', async () => {
  const { text = '' } = blocks.findLast(({ language }) => language === 'yaml') ?? {};
  const { config } = await loadConfig({ text, file: join(repository, 'ambit.yaml') });
  expect(config.servers['files']?.tools).toMatchObject({
    instead: { edit_file: 'session_edit_file', 'read_*': 'session_read_file' },
    hideReplaced: true,
  });
});
