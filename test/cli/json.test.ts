import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { ambitInProcess, openControlledGateway, splitWords } from './in-process.ts';

/** Commands in an order in which each finds what the ones before it made. `ID` is the id that was printed last. */
const lines = [
  'session create --name task --workspace shop --trust direct',
  'session list',
  'session tree',
  'session show task',
  'session inspect task',
  'session message task hello',
  'session restrict task --ttl 60',
  'session diff task',
  'session merge task --dry-run',
  'resolve --session task',
  'explain --session task --tool notes__read',
  'session list --activity',
  'session end task',
  'session list --ended --since 24h --user local',
  'workspace list',
  'workspace show shop',
  'server list',
  'server show notes',
  'rule list',
  'server approve notes',
  'user add ada --team ops',
  'user list',
  'team list',
  'key list',
  'key create --user ada',
  'key rotate ID',
  'key revoke ID',
  'credential list',
  "policy add --scope org --name tests 'Write tests.'",
  'policy list',
  'policy remove --scope org --name tests',
  "objective add --scope org 'Ship it.'",
  'objective list',
  'objective remove ID',
  'user remove ada',
  'import --dry-run --from cursor',
  'server add extra --url https://example.com/mcp',
  'server remove extra',
  'client',
  'client cursor',
  'status',
  'stats',
  'process list',
];

/** Commands that need more than a gateway; these tests read their JSON. */
const readElsewhere: Readonly<Record<string, string>> = {
  init: 'test/cli/commands/init.test.ts',
  logs: 'test/cli/commands/status.test.ts',
  stop: 'test/journeys/background.test.ts',
  'server search': 'test/cli/registry/ask-registry.test.ts',
  serve: 'test/journeys/start-ambit.ts',
  open: 'test/cli/commands/console.test.ts',
  'console list': 'test/cli/commands/console.test.ts',
  'console revoke': 'test/cli/commands/console.test.ts',
  doctor: 'test/cli/commands/doctor.test.ts',
  login: 'test/cli/commands/login.test.ts',
  'credential set': 'test/cli/commands/credential.test.ts',
  'credential remove': 'test/cli/commands/credential.test.ts',
  'server check': 'test/cli/commands/server.test.ts',
  'session watch': 'test/cli/commands/session-tree.test.ts',
  'session discard': 'test/cli/commands/session-folder.test.ts',
  'audit tail': 'test/journeys/observed/audit.test.ts',
  'audit search': 'test/journeys/observed/audit.test.ts',
  'audit show': 'test/journeys/observed/audit.test.ts',
};
const withoutData = ['stdio', 'run', 'completion'];

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-json-')));
const places = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'data')];
let gateway: Awaited<ReturnType<typeof openControlledGateway>>;
beforeAll(async () => {
  mkdirSync(join(folder, 'shop'));
  const configuration = 'servers: { notes: { command: cat } }\nworkspaces: { shop: { path: shop, isolation: copy } }\n';
  writeFileSync(join(folder, 'ambit.yaml'), `version: 1\n${configuration}`);
  // One gateway answers faster than a store that each command opens.
  const memory = { store: { kind: 'memory' } } as const;
  gateway = await openControlledGateway(join(folder, 'ambit.yaml'), join(folder, 'data'), memory);
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('--json prints one JSON document', () => {
  let id = '';
  test.each(lines)('ambit %s', async (line) => {
    const words = splitWords(line).map((word) => (word === 'ID' ? id : word));
    const { code, stdout, stderr } = await ambitInProcess([...words, '--json', ...places], { HOME: folder });
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringContaining('INTERNAL') });
    const data = JSON.parse(stdout) as { id?: string };
    expect(stdout).toBe(`${JSON.stringify(data)}\n`);
    id = data.id ?? id;
  });

  test('every command that prints data is tried, here or in a test that is named here', () => {
    const isTried = (name: string) =>
      name in readElsewhere || withoutData.includes(name) || lines.some((line) => `${line} `.startsWith(`${name} `));
    const missing = commands.map(({ path }) => path.join(' ')).filter((name) => !isTried(name));
    expect(missing).toEqual([]);
  });
});
