import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ambitInProcess, onlyStoreNote } from '../in-process.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-alone-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const places = (config = 'none.yaml') => ['--config', join(folder, config), '--data-dir', join(folder, 'data')];

async function runSessionCommand(...args: string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await ambitInProcess(['session', ...args, '--json', ...places()]);
  expect([code, stderr]).toEqual([0, onlyStoreNote]);
  return JSON.parse(stdout === '' ? '{}' : stdout) as Record<string, unknown>;
}

test('sessions are opened, listed, shown, restricted and ended in the store itself', async () => {
  const meta = ['--meta', 'task=049', '--meta', 'a=b=c'];
  const { id, token, ...rest } = await runSessionCommand('create', '--name', 'alone', '--ttl', '600', ...meta);
  expect(rest).toMatchObject({ name: 'alone', metadata: { task: '049', a: 'b=c' } });
  expect(token).toMatch(/^ambs_/);
  expect(await runSessionCommand('list')).toMatchObject({ sessions: [{ id }] });
  expect(await runSessionCommand('restrict', 'alone', '--ttl', '60')).toMatchObject({ ttlSeconds: 60 });
  expect(await runSessionCommand('show', String(id).slice(0, 8))).toMatchObject({ id, ttlSeconds: 60 });
  await runSessionCommand('end', 'alone');
  const gone = await ambitInProcess(['session', 'show', 'alone', ...places()]);
  expect(gone).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('SESSION_NOT_FOUND') });
});

test('a session is opened below another, by name, within its bounds, and ends with it', async () => {
  const { id } = await runSessionCommand('create', '--name', 'above', '--user', 'ada', '--permission', 'notes:read');
  const below = await runSessionCommand('create', '--parent', 'above', '--permission', 'notes:read');
  expect(below).toMatchObject({ parentId: id, userId: 'ada', permissions: ['notes:read'] });
  const shown = await ambitInProcess(['session', 'show', String(below['id']), ...places()]);
  expect(shown.stdout).toMatch(new RegExp(`^parent +${id}$`, 'm'));
  for (const wider of [
    ['--permission', 'notes:write'],
    ['--user', 'bob'],
    ['--trust', 'direct'],
  ]) {
    const { code } = await ambitInProcess(['session', 'create', '--parent', 'above', ...wider, ...places()]);
    expect(code).toBe(1);
  }
  await runSessionCommand('end', 'above');
  expect(await runSessionCommand('list')).toMatchObject({ sessions: [] });
});

test('L1: metadata beyond its limit is refused', async () => {
  const meta = ['--meta', `k=${'x'.repeat(10_240)}`];
  const { code, stderr } = await ambitInProcess(['session', 'create', ...meta, ...places()]);
  expect([code, stderr]).toEqual([1, expect.stringContaining('METADATA_TOO_LARGE')]);
});

test('sessions in memory are only in a running gateway', async () => {
  writeFileSync(join(folder, 'memory.yaml'), 'version: 1\nstore: { kind: memory }\n');
  for (const command of [['create'], ['list'], ['show', 'x'], ['end', 'x']]) {
    const { code, stdout, stderr } = await ambitInProcess(['session', ...command, ...places('memory.yaml')]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/GATEWAY_UNREACHABLE: No gateway is running.*ambit serve/s);
  }
});
