import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { readSessionEnvironment } from '../../../src/cli/commands/stdio.ts';
import { modernRequest, type RpcMessage } from '../../journeys/json-mcp-client.ts';
import { ambitBin } from '../../journeys/start-ambit.ts';

test('what servers write to stderr is printed with their names, and a failed one does not end the others', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-stdio-'));
  const failing = (words: string) => ({
    command: process.execPath,
    args: ['-e', `console.error('${words}');process.exit(2)`],
  });
  const file = join(folder, 'ambit.json');
  const servers = { one: failing('Error: no key'), two: failing('no folder') };
  writeFileSync(file, JSON.stringify({ version: 1, servers }));
  const flags = ['--trust', 'direct', '--config', file, '--data-dir', join(folder, 'data')];
  const child = spawn(process.execPath, [ambitBin, 'stdio', ...flags]);
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.stdin.end(`${JSON.stringify(modernRequest(1, 'tools/list'))}\n`);
  const [stdout, stderr] = await output;
  expect(await exited).toBe(0);
  rmSync(folder, { recursive: true, force: true });
  expect(stderr).toMatch(/^\[one\] Error: no key$/m);
  expect(stderr).toMatch(/^\[two\] no folder$/m);
  const { result } = JSON.parse(stdout) as RpcMessage;
  expect(result?._meta?.['ambit/unavailable']).toMatchObject([
    { server: 'one', reason: expect.stringContaining('It wrote to stderr: "Error: no key".') },
    { server: 'two', reason: expect.stringContaining('It wrote to stderr: "no folder".') },
  ]);
});

test('missing and empty variables give no session', () => {
  const nothing = { id: undefined, token: undefined, storeDir: undefined, includeMeta: undefined, draft: {} };
  expect(readSessionEnvironment({})).toEqual(nothing);
  expect(readSessionEnvironment({ AMBIT_SESSION_ID: '', AMBIT_SESSION_TOKEN: '', AMBIT_USER_ID: '' })).toEqual(nothing);
});

test('each variable sets its member', () => {
  const named = readSessionEnvironment({
    AMBIT_SESSION_ID: 'task-0049',
    AMBIT_SESSION_TOKEN: 'ambs_x',
    AMBIT_USER_ID: 'ada',
    AMBIT_AGENT_ID: 'a1',
    AMBIT_SESSION_TTL_SECONDS: '600',
    AMBIT_SESSION_STORE_DIR: '/var/lib/ambit/../sessions',
    AMBIT_SESSION_INCLUDE_META: 'Yes',
  });
  expect(named).toEqual({
    id: 'task-0049',
    token: 'ambs_x',
    storeDir: '/var/lib/sessions',
    includeMeta: true,
    draft: { id: 'task-0049', userId: 'ada', agentId: 'a1', ttlSeconds: 600 },
  });
});

test.each([
  [
    'AMBIT_SESSION_ID',
    ['short', 'Upper-case', '../../etc', 'with space 1', '-leading-dash', 'a'.repeat(65), 'naïve-id', 'line\nbreak1'],
  ],
  ['AMBIT_SESSION_TTL_SECONDS', ['0', '-1', '1.5', '1e3', 'soon', '0x10', '9'.repeat(10)]],
  ['AMBIT_SESSION_INCLUDE_META', ['2', 'maybe', 'tru']],
])('L2: %s is refused when it is not valid', (name, values) => {
  for (const value of values) expect(() => readSessionEnvironment({ [name]: value })).toThrow(name);
});
