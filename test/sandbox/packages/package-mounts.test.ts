import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { serverFiles } from '../../../src/sandbox/common/server-files.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-shown-')));
afterAll(() => rmSync(folder, { recursive: true }));

function shownFrom(dataDir: string): string[] {
  const content = join(dataDir, 'packages/npx-x-0/content-0');
  const program = join(content, 'node_modules/x/bin.js');
  for (const file of [program, join(content, 'package.json'), join(dataDir, 'keys/secret')]) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '{}');
  }
  chmodSync(program, 0o755);
  const rules = { hidden: [dataDir], packages: join(dataDir, 'packages') };
  const { mounts } = serverFiles({ command: program, args: [], searchPath: '/usr/bin', ...rules });
  return [...new Set(mounts.map(({ source }) => source))].sort();
}

test.each(['data', 'node_modules/.cache/data', 'node_modules/a/node_modules/b'])(
  'of a package that was fetched into %s, its modules are shown and nothing else',
  (name) => {
    const content = join(folder, name, 'packages/npx-x-0/content-0');
    expect(shownFrom(join(folder, name))).toEqual([
      join(content, 'node_modules'),
      join(content, 'node_modules/x/bin.js'),
      join(content, 'package.json'),
    ]);
  },
);
