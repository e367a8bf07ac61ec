import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ambitInProcess, openControlledGateway, splitWords } from '../in-process.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-list-')));
const places = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'data')];
let gateway: Awaited<ReturnType<typeof openControlledGateway>>;
beforeAll(async () => {
  writeFileSync(join(folder, 'ambit.yaml'), 'version: 1\n');
  gateway = await openControlledGateway(join(folder, 'ambit.yaml'), join(folder, 'data'), {
    store: { kind: 'memory' },
  });
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

const ambit = (line: string) => ambitInProcess([...splitWords(line), ...places], { HOME: folder });

test('sessions are listed with what they do, and after their end', async () => {
  expect((await ambit('session list --ended')).stdout).toContain('No session has ended');
  await ambit('session create --name first --user ada --trust direct');
  await ambit('session create --name ended --user bob --trust direct --quota totalCalls=7');
  expect((await ambit('session list --activity')).stdout).toMatch(/first +ada +0 +0 +0 +- +-/);
  expect((await ambit('session list --user bob')).stdout).not.toContain('first');
  expect((await ambit('session list --workspace elsewhere')).stdout).toContain('No live session matches.');
  await ambit('session end first');
  const { stdout } = await ambit('session list --ended --since 1h');
  expect(stdout).toMatch(/^[0-9a-f]{8} +first +ada +- +direct +\d+s +\d+s ago +ended$/m);
  expect((await ambit('session list --ended --user bob')).stdout).toContain('No session has ended');
  // The name is also the last part of another path.
  const shown = JSON.parse((await ambit('session show ended --json')).stdout);
  expect(shown).toMatchObject({ name: 'ended', limits: { totalCalls: 7 }, activity: null });
});

test.each([
  ['session list --since 1h', '--since needs --ended'],
  ['session list --ended --since yesterday', 'is not a valid time'],
  ['session list --ended --limit 0', '--limit takes a whole number from 1 to 1000000'],
])('%s is refused', async (line, reason) => {
  const { code, stderr } = await ambit(line);
  expect([code, stderr]).toEqual([2, expect.stringContaining(reason)]);
});
