import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { repository } from '../../journeys/start-ambit.ts';
import { ambitInProcess, openControlledGateway, splitWords } from '../in-process.ts';

const page = readFileSync(join(repository, 'docs/how-to/write-rules.md'), 'utf8');
const blocks = (language: string) =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm'))].map((match) => match[1] as string);

test('the rules of the how-to decide as it says', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-rules-'));
  const [configFile, dataDir] = [join(folder, 'etc', 'ambit.yaml'), join(folder, 'data')];
  const [lists, rules] = blocks('yaml') as [string, string];
  await loadConfig({ text: lists, file: configFile });
  mkdirSync(join(folder, 'etc'));
  writeFileSync(configFile, rules);
  expect((await loadConfig({ file: configFile })).warnings).toEqual([]);
  const { gateway, close } = await openControlledGateway(configFile, dataDir);
  try {
    const said: string[] = [];
    for (const line of blocks('sh')) {
      const [, ambit, ...args] = splitWords(line);
      expect(ambit).toBe('ambit');
      said.push((await ambitInProcess([...args, '--config', configFile, '--data-dir', dataDir])).stdout);
    }
    expect(said[1]).toBe(blocks('').at(-1));
    const { session } = await gateway.openSession({ name: 'x' });
    const allowed = (tool: string, args: string) => gateway.explainCall(session, tool, args).allowed;
    expect(allowed('files__write', '{"path":"src/a.ts"}')).toBe(true);
    expect(allowed('files__write', '{"path":"src/a.pem"}')).toBe(false);
    expect(allowed('files__write', '{"path":"src/../etc"}')).toBe(false);
    expect(allowed('files__delete_all', '{}')).toBe(false);
    expect(allowed('files__read', '{}')).toBe(true);
  } finally {
    await close();
    rmSync(folder, { recursive: true, force: true });
  }
});
