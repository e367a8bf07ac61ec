import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { AmbitError } from '../../../../src/errors.ts';
import type { Journal } from '../../../../src/observability/journal/journal.ts';
import { createRunners } from '../../../../src/sandbox/runners.ts';
import type { StdioServer } from '../../../../src/upstreams/definition.ts';
import {
  noProcessWatch,
  type ProcessOptions,
  startServer,
} from '../../../../src/upstreams/links/stdio/server-process.ts';
import { createHarness } from '../../../sandbox/runner-harness.ts';

async function createParts() {
  const harness = await createHarness();
  onTestFinished(harness.stop);
  const installs: unknown[] = [];
  const { reaper, root: tmpRoot } = harness;
  const packages = join(harness.tmpParent, 'packages');
  const runners = createRunners({ reaper, tmpRoot, packages, onInstall: (event) => installs.push(event) });
  const prepared = { env: {}, cwd: harness.tmpParent, confinement: undefined };
  const options: ProcessOptions = {
    runners,
    tmpRoot,
    prepare: () => prepared,
    journal: { record() {} } as unknown as Journal,
    sessionId: 'x',
    messageBytes: 1000,
    mayStart() {},
    mayServe() {},
    watch: noProcessWatch,
    owner: 'x',
    takeSlot: async () => ({ markStarted() {}, release() {}, markLeaving() {} }),
  };
  const listener = {
    onLine: () => true,
    onTooLong() {},
    onSilence() {},
    onExit() {},
    stoppable: { idleSince: () => undefined, hasClients: () => false, end() {} },
    abandoned: new Promise<never>(() => {}),
  };
  return { installs, prepared, options, listener };
}

test('S4: the package of a server that may not start is not installed', async () => {
  const { installs, options, listener } = await createParts();
  const mayStart = () => {
    throw new AmbitError('SERVER_NOT_APPROVED');
  };
  const server = { name: 'x', command: 'npx', args: ['-y', 'some-server'], sandbox: {} } as unknown as StdioServer;
  const starting = startServer(server, { ...options, mayStart }, listener);
  await expect(starting).rejects.toMatchObject({ code: 'SERVER_NOT_APPROVED' });
  expect(installs).toEqual([]);
});

test('neither the key of a process nor a configured secret of any name is in what its stderr leaves behind', async () => {
  const { prepared, options, listener } = await createParts();
  const env = { contextKey: 'configured-value-1', API_KEY: 'configured-value-2' };
  const print = `
    console.error(require('node:fs').readFileSync(process.env.AMBIT_CONTEXT_KEY_FILE, 'utf8'));
    console.error(process.env.contextKey, process.env.API_KEY, 'end');`;
  const server = { name: 'x', command: process.execPath, args: ['-e', print], sandbox: {} } as unknown as StdioServer;
  const recorded: unknown[] = [];
  const journal = { record: (line: unknown) => recorded.push(line) } as unknown as Journal;
  const prepare = () => ({ ...prepared, env, keyFileNames: ['AMBIT_CONTEXT_KEY_FILE'] });
  const exited = new Promise<void>((resolve) => Object.assign(listener, { onExit: resolve }));
  const started = await startServer(server, { ...options, prepare, journal }, listener);
  await exited;
  const kept = JSON.stringify([recorded, started.output()]);
  expect(kept).toContain('end');
  for (const secret of [started.contextKey?.secret ?? '', 'configured-value']) expect(kept).not.toContain(secret);
});
