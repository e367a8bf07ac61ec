import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { findLaunchObstacle } from '../../../src/upstreams/access/launch-obstacle.ts';
import { defineServers, type StdioServer } from '../../../src/upstreams/definition.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-obstacle-'));
const cwd = join(folder, 'workspace');
for (const name of ['workspace/src', 'data']) mkdirSync(join(folder, name), { recursive: true });
writeFileSync(join(folder, 'server.js'), '');
writeFileSync(join(cwd, 'own.js'), '');
afterAll(() => rmSync(folder, { recursive: true }));

async function obstacle(server: Record<string, unknown>, isSandboxed: boolean): Promise<string | undefined> {
  const text = JSON.stringify({ version: 1, servers: { s: server } });
  const { config } = await loadConfig({ text, file: join(folder, 'ambit.yaml') });
  const defined = defineServers(config, folder).get('s') as StdioServer;
  return findLaunchObstacle(defined, { searchPath: process.env['PATH'], folders: [cwd], isSandboxed });
}

test.each([
  ['a missing program', { command: 'no-such-program' }, 'The command "no-such-program" was not found on the PATH'],
  ['a missing file', { command: './nothing' }, 'The command "nothing" does not exist'],
  ['arguments in the command', { command: './server.js --fast' }, 'does not exist; put arguments into "args"'],
  [
    'a misspelt script',
    { command: 'node', args: ['--no-warnings', 'servr.js'] },
    'no file servr.js in the folder of the configuration',
  ],
])('%s keeps a server from starting', async (_, server, expected) => {
  expect(await obstacle(server, false)).toContain(expected);
});

test.each([
  [{ command: 'node', args: ['server.js', 'data'] }],
  [{ command: 'node', args: ['own.js'] }],
  [{ command: 'node', args: ['-e', '1', 'x.txt'] }],
])('%j starts', async (server) => {
  expect(await obstacle(server, false)).toBeUndefined();
});

test('a folder among the arguments is named where a sandbox does not show it', async () => {
  const server = { command: 'node', args: ['server.js', 'data'] };
  expect(await obstacle(server, true)).toContain(
    `${join(folder, 'data')} is a folder that is not visible in its sandbox`,
  );
  for (const shown of ['.', 'workspace', 'workspace/src', '/usr', '/tmp']) {
    expect(await obstacle({ ...server, args: ['server.js', shown] }, true)).toBeUndefined();
  }
  expect(await obstacle({ ...server, sandbox: { readable: ['data'] } }, true)).toBeUndefined();
  expect(await obstacle({ ...server, sandbox: { image: 'node:20' } }, true)).toBeUndefined();
});
