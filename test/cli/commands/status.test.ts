import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { describeUptime } from '../../../src/cli/commands/status.ts';
import type { AnswerOf } from '../../../src/entrances/control/routes.ts';
import { listenHttp } from '../../../src/entrances/http/listen-http.ts';
import { sendModern } from '../../journeys/raw-mcp-client.ts';
import { ambitInProcess, openControlledGateway } from '../in-process.ts';

type Status = AnswerOf<'GET /api/v1/status'>;

let folder: string;
let places: string[];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-status-'));
  writeFileSync(
    join(folder, 'ambit.yaml'),
    `version: 1
servers:
  dies: { command: node, args: [-e, "console.error('\\x1b[31mError: no key, token=hunter2222'); process.exit(3)"] }
  calm: { command: node, args: [-e, ""] }
`,
  );
  places = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'data')];
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const ambit = (...words: string[]) => ambitInProcess([...words, ...places]);

/** Compares with the file of a screen, as test/cli/screens.test.ts does. Texts that differ from run to run are replaced. */
async function expectScreen(name: string, line: string, text: string): Promise<void> {
  const screen = text
    .replaceAll(folder, '/home/ada/.config/ambit')
    .replace(/127\.0\.0\.1:\d+/, '127.0.0.1:7420')
    .replace(/pid \d+/, 'pid 4711')
    .replace(/^(Running for +).*$/m, '$12 hours 5 minutes')
    // The column is cut where the age leaves room, so only the start of the text is compared.
    .replace(/\b\d+[sm] ago: (.{24}).*$/gm, '3s ago: $1…');
  await expect(`$ ${line}\n${screen}`).toMatchFileSnapshot(join(import.meta.dirname, '../screens', `${name}.txt`));
}

describe('without a gateway', () => {
  test('status says so, makes nothing, and shows what the store knows', async () => {
    const first = await ambit('status');
    expect(first).toMatchObject({ code: 0, stderr: expect.stringContaining('ambit serve --background') });
    expect(first.stdout).toMatch(/^Gateway +not running\n.*^Sessions +0\nServers +2\nStore +sqlite\n$/ms);
    const { dataDir } = JSON.parse((await ambit('status', '--json')).stdout) as Status;
    expect(dataDir).toBe(places[3]);
    await ambit('session', 'create', '--trust', 'direct');
    expect((await ambit('status')).stdout).toMatch(/^Sessions +1: 1 direct$/m);
  });

  test.each([
    [['stop'], 1, 'No gateway is running'],
    [['logs', 'dies'], 1, 'No gateway is running'],
    [['logs', 'dies', '--follow'], 1, 'No gateway is running'],
    [['logs'], 1, 'There is no log of a gateway in the background'],
    [['logs', '--session', 'x'], 2, '--session needs the name of a server'],
    [['logs', 'dies', '-n', '1001'], 2, '-n takes a whole number'],
  ])('%j: exit %i', async (words, code, says) => {
    expect(await ambit(...words)).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(says) });
  });
});

test('with a gateway: states, last errors, and the stderr of processes with their session', async () => {
  const { gateway, close } = await openControlledGateway(places[1] as string, places[3] as string);
  const http = await listenHttp(gateway, { host: '127.0.0.1', port: 0 }, gateway.log);
  try {
    const { session, token } = await gateway.openSession({ trustLevel: 'direct' });
    const other = await gateway.openSession({ trustLevel: 'direct' });
    const failed = await sendModern(`${http.url}/mcp/dies`, token, { method: 'tools/list' });
    expect(await failed.next()).toContain('UPSTREAM_FAILED');
    const { stdout: shown } = await ambit('status');
    const { stdout: listed } = await ambit('server', 'list');
    await expectScreen('status', 'ambit status', shown);
    await expectScreen('server-list', 'ambit server list', listed);
    expect(shown).toMatch(/^Servers +2: 1 failed, 1 idle$|^Servers +2: 1 idle, 1 failed$/m);
    expect(shown).toMatch(/^dies +failed +\d+s ago: ended with code 3 before it answered/m);
    expect(listed).toMatch(/^dies +failed +stdio +- +- +0 +\d+s ago: ended with code 3/m);
    const id = session.id.slice(0, 8);
    const line = new RegExp(`^\\d{4}-\\d\\d-\\d\\d [\\d:]{8}  ${id}  \\d+  Error: no key, token=\\[secret\\]$`, 'm');
    expect((await ambit('logs', 'dies')).stdout).toMatch(line);
    const [first = ''] = (await ambit('logs', 'dies', '-n', '1', '--json', '--session', session.id)).stdout.split('\n');
    expect(JSON.parse(first)).toMatchObject({
      session: id,
      pid: expect.any(Number),
      line: expect.stringMatching(/^Error/),
    });
    expect((await ambit('logs', 'dies', '--session', other.session.id)).stdout).toBe('');
    expect(await ambit('logs', 'calm')).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('"calm"'),
    });
    expect((await ambit('logs', 'die')).stderr).toContain('did you mean "dies"?');
    expect((await ambit('logs', 'dies', '--session', 'nobody')).stderr).toContain('SESSION_NOT_FOUND');
  } finally {
    await http.close(0);
    await close();
  }
});

test.each([
  [400, 'less than a second'],
  [1000, '1 second'],
  [61_000, '1 minute 1 second'],
  [7_500_000, '2 hours 5 minutes'],
  [86_400_000, '1 day'],
  [3 * 86_400_000 + 7_200_000, '3 days 2 hours'],
])('%i ms in words: %s', (ms, words) => {
  expect(describeUptime(ms)).toBe(words);
});
