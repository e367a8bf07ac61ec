import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runTraced, startTraced, type TracedCommand } from './trace-ambit.ts';

let folder: string;
let places: string[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-offline-'));
  const workspace = join(folder, 'shop');
  await mkdir(workspace);
  const config = join(folder, 'ambit.json');
  const servers = { notes: { command: process.execPath, args: ['-e', '0'] } };
  await writeFile(config, JSON.stringify({ version: 1, servers, workspaces: { shop: { path: workspace } } }));
  places = ['--config', config, '--data-dir', join(folder, 'data')];
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs a command and checks that it needs none of what starts programs. */
async function offline(...args: string[]): Promise<TracedCommand> {
  const done = await runTraced([...args, ...places]);
  expect(done.code, done.stderr).toBe(0);
  expect(done.programs).toEqual([]);
  expect(done.sources).toContain('src/gateway/assembly/open-operator.ts');
  expect(done.sources.filter((path) => path.startsWith('src/sandbox/'))).toEqual([]);
  return done;
}

test('sessions are created, listed, shown and ended without a gateway, a program or a runner', async () => {
  for (const trust of ['sandboxed', 'direct']) {
    const { stdout } = await offline(
      'session',
      'create',
      '--trust',
      trust,
      '--name',
      trust,
      '--workspace',
      'shop',
      '--json',
    );
    expect(JSON.parse(stdout)).toMatchObject({
      name: trust,
      trustLevel: trust,
      token: expect.stringMatching(/^ambs_/),
    });
  }
  const [listed, shown, data] = await Promise.all([
    offline('session', 'list', '--json'),
    offline('session', 'show', 'sandboxed'),
    offline('session', 'show', 'sandboxed', '--json'),
  ]);
  expect(JSON.parse(listed.stdout)).toMatchObject({ sessions: [{ name: 'sandboxed' }, { name: 'direct' }] });
  expect(shown.stdout).toMatch(/^sandbox +unknown: no gateway is running$/m);
  expect(JSON.parse(data.stdout)).toMatchObject({ name: 'sandboxed', sandbox: null });
  await offline('session', 'end', 'sandboxed');
  const left = await offline('session', 'list', '--json');
  expect(JSON.parse(left.stdout)).toMatchObject({ sessions: [{ name: 'direct' }] });
});

test('the other commands that work on the store need no gateway, program or runner either', async () => {
  await offline('user', 'add', 'ada');
  await Promise.all([
    offline('key', 'list'),
    offline('policy', 'list'),
    offline('credential', 'list'),
    offline('user', 'remove', 'ada'),
  ]);
});

test('ambit serve is ready before any sandbox was tried; the reaper of its processes starts beside that', async () => {
  const { child, trace, clear } = await startTraced(['serve', '--port', '0', '--json', ...places]);
  try {
    await once(child.stdout!, 'data');
    const { programs, sources } = trace();
    expect(programs).toEqual([expect.stringContaining('reaper-process')]);
    expect(sources).toContain('src/sandbox/runners.ts');
  } finally {
    child.kill('SIGTERM');
    await once(child, 'close');
    await clear();
  }
});
