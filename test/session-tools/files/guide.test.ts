import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { repository } from '../../house/source-files.ts';
import { someFiles } from './some-files.ts';

const page = readFileSync(join(repository, 'docs/how-to/from-edit-file-to-session-edit-file.md'), 'utf8');
const blocks = [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
  language: language as string,
  text: text as string,
}));

test('W11: the calls of the guide, in order, are answered as it says', async () => {
  const calls = blocks.filter(({ language }) => language === 'json');
  const answers = blocks.filter(({ language }) => language === 'text');
  expect(answers).toHaveLength(calls.length);
  const all = someFiles();
  try {
    all.put('src/greet.js', "export function greet(name) {\n  return 'Hello ' + name;\n}\n");
    for (const [i, { text }] of calls.entries()) {
      const { name, arguments: args } = JSON.parse(text) as { name: string; arguments: object };
      const { content } = await all.call(name.replace(/^session_/, ''), args);
      expect(content[0].text.trimEnd(), text).toBe(answers[i]?.text.trimEnd());
    }
    expect(all.get('src/greet.js')).toMatch(/`Hello .{7}!`/);
  } finally {
    await all.close();
  }
});

test('W11: the configuration of the guide holds, and names tools that there are', async () => {
  const { text = '' } = blocks.find(({ language }) => language === 'yaml') ?? {};
  const { config } = await loadConfig({ text, file: join(repository, 'ambit.yaml') });
  expect(config.servers['files']?.tools).toMatchObject({
    instead: { edit_file: 'session_edit_file', 'read_*': 'session_read_file' },
    hideReplaced: true,
  });
});
