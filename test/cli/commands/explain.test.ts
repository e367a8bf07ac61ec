import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CallExplanation } from '../../../src/index.ts';
import { repository } from '../../journeys/start-ambit.ts';
import { ambitInProcess, openControlledGateway } from '../in-process.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-explain-'));
const configFile = join(folder, 'etc', 'ambit.yaml');
const dataDir = join(folder, 'data');
const places = ['--config', configFile, '--data-dir', dataDir];
const server = join(repository, 'test/fixtures/reloaded/server.js');
let controlled: Awaited<ReturnType<typeof openControlledGateway>>;

const ambit = (...args: string[]) => ambitInProcess([...args, ...places]);
async function explain(...args: string[]): Promise<CallExplanation> {
  const { code, stdout, stderr } = await ambit('explain', '--json', ...args);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as CallExplanation;
}

beforeAll(async () => {
  mkdirSync(join(folder, 'etc'));
  writeFileSync(
    configFile,
    `version: 1
servers:
  notes:
    command: ${process.execPath}
    args: [${server}]
    env: { MARK: done }
    tools: { deny: [crash], permissions: { "write_*": notes:write } }
  far: { url: "http://127.0.0.1:9/mcp" }
rules:
  - id: no-prod-writes
    deny: notes__write_*
    when: session.trustLevel == 'sandboxed' && args.path.startsWith('prod/')
`,
  );
  controlled = await openControlledGateway(configFile, dataDir);
  const create = ['session', 'create', '--user', 'ada'];
  await ambit(...create, '--name', 'writer', '--permission', 'notes:write', '--permission', 'notes:read');
  await ambit(...create, '--name', 'reader', '--trust', 'direct');
});

afterAll(async () => {
  await controlled.close();
  rmSync(folder, { recursive: true, force: true });
});

test('a denial names its rule, and every claim with who says it', async () => {
  const told = await explain('--session', 'writer', '--tool', 'notes__write_note', '--args', '{"path":"prod/x"}');
  expect(told).toMatchObject({
    server: 'notes',
    tool: 'write_note',
    allowed: false,
    rule: 'no-prod-writes',
    rules: [{ id: 'no-prod-writes', effect: 'deny', outcome: 'holds' }],
  });
  expect(told.claims).toEqual(
    expect.arrayContaining([
      { claim: 'session.trustLevel', value: 'sandboxed', source: 'the session’s record' },
      { claim: 'args.path', value: '"prod/x"', source: 'the call; stated by the agent' },
    ]),
  );
});

test.each([
  ['writer', 'notes__write_note', '{"path":"src/x"}', true, 'default'],
  ['writer', 'notes__write_note', undefined, false, 'no-prod-writes'],
  ['writer', 'notes__mark', undefined, true, 'default'],
  ['writer', 'notes__crash', undefined, false, 'servers.notes.tools.deny'],
  ['reader', 'notes__write_note', '{"path":"src/x"}', false, 'servers.notes.tools.permissions'],
  ['writer', 'far__x', undefined, false, 'servers.far.trust'],
  ['writer', 'nobody__x', undefined, false, 'servers'],
])('%s, %s %s: %s by %s', async (session, tool, args, allowed, rule) => {
  const more = args === undefined ? [] : ['--args', args];
  expect(await explain('--session', session, '--tool', tool, ...more)).toMatchObject({ allowed, rule });
});

test('people get a table of at most 80 columns', async () => {
  const { stdout } = await ambit('explain', '--session', 'writer', '--tool', 'notes__write_note');
  expect(stdout).toMatch(/^tool {5}notes__write_note\nallowed {2}no\nrule {5}no-prod-writes\nbecause {2}the rule/);
  expect(stdout).toMatch(/^session\.trustLevel +sandboxed +the session’s record$/m);
  expect(stdout).toMatch(/^no-prod-writes +deny +error: No such key: path$/m);
  expect(Math.max(...stdout.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
});

test.each([
  [['--session', 'writer', '--tool', 'write_note'], 1, /server__tool/],
  [['--session', 'writer', '--tool', 'notes__x', '--args', '[1]'], 1, /not a JSON object/],
  [['--session', 'writer', '--tool', 'notes__x', '--args', '{"a":1'], 1, /not a JSON object/],
  [['--session', 'nobody', '--tool', 'notes__x'], 1, /SESSION_NOT_FOUND/],
  [['--tool', 'notes__x'], 2, /--session ID is missing/],
])('%j is refused', async (args, code, words) => {
  const said = await ambit('explain', ...args);
  expect([said.code, said.stdout]).toEqual([code, '']);
  expect(said.stderr).toMatch(words);
});

test('L10: permissions are shown, checked where they enter, and only ever taken away', async () => {
  const create = ['session', 'create', '--name', 'p', '--permission', 'a:b', '--permission', 'C:D'];
  expect((await ambit(...create)).stderr).toMatch(/"C:D" is not a valid permission/);
  const opened = await ambit(...create.slice(0, 6), '--permission', 'c:*');
  expect(opened.stdout).toMatch(/^permissions +a:b, c:\*$/m);
  expect((await ambit('session', 'restrict', 'p', '--permission', 'c:d')).stderr).toMatch(/does not have.*"c:d"/);
  expect((await ambit('session', 'restrict', 'p', '--permission', 'c:*')).stdout).toMatch(/^permissions +c:\*$/m);
  expect((await ambit('session', 'restrict', 'p', '--no-permissions')).stdout).toMatch(/^permissions +none$/m);
  expect((await ambit('session', 'restrict', 'p', '--permission', 'c:*')).code).toBe(1);
});

test('what an agent SDK starts by itself keeps to the same bounds', async () => {
  const { session } = await controlled.gateway.openSession({ userId: 'ada', trustLevel: 'direct' });
  const args = ['run', '--session', session.id, ...places, '--name', 'notes', '--', process.execPath, server];
  const child = spawn(process.execPath, [join(repository, 'bin/ambit.js'), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let id = 0;
  const ask = async (method: string, params: Record<string, unknown>) => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })}\n`);
    return JSON.parse((await lines.next()).value as string) as { result: Record<string, unknown> };
  };
  await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } });
  const { result } = await ask('tools/list', {});
  expect((result['tools'] as { name: string }[]).map(({ name }) => name)).toEqual(['mark', 'slow']);
  expect(JSON.stringify(await ask('tools/call', { name: 'crash', arguments: {} }))).toContain('PERMISSION_DENIED');
  child.stdin.end();
  await once(child, 'exit');
});
