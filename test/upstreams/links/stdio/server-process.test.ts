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

test('S4: the package of a server that may not start is not installed', async () => {
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
    mayStart() {
      throw new AmbitError('SERVER_NOT_APPROVED');
    },
    mayServe() {},
    watch: noProcessWatch,
    owner: 'x',
    takeSlot: async () => ({ release() {}, markLeaving() {} }),
  };
  const server = { name: 'x', command: 'npx', args: ['-y', 'some-server'], sandbox: {} } as unknown as StdioServer;
  const listener = {
    onLine: () => true,
    onTooLong() {},
    onSilence() {},
    onExit() {},
    stoppable: { idleSince: () => undefined, hasClients: () => false, end() {} },
    abandoned: new Promise<never>(() => {}),
  };
  await expect(startServer(server, options, listener)).rejects.toMatchObject({ code: 'SERVER_NOT_APPROVED' });
  expect(installs).toEqual([]);
});
