import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createServerSessions } from '../../../src/public/server/index.ts';
import { openContainerBackends } from '../../../src/public/workspaces/index.ts';
import { hasPodman } from '../../needs/podman.ts';
import { podman } from '../../workspaces/backends/container/volume-harness.ts';
import { connectPipe } from '../server/connect-client.ts';

test.runIf(hasPodman())('W5: the file tools of a server of one’s own can work in a container', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'ambit-volumes-'));
  const volume = `ambit-test-${randomBytes(6).toString('hex')}`;
  const containers = await openContainerBackends({ dataDir });
  expect(() => containers.open('../outside', { rules: { hidden: [], kept: [], open: [] } })).toThrow(
    'name of a volume',
  );
  const sessions = createServerSessions({
    workspaces: [{ id: 'box' }],
    local: { workspace: 'box' },
    files: { backend: (_workspace, rules) => containers.open(volume, { rules }) },
    context: { env: {} },
  });
  const caller = await connectPipe('v2', sessions);
  await caller.call('session_edit_file', { path: 'notes/a.txt', content: 'in a container' });
  expect((await caller.call('session_read_file', { path: 'notes/a.txt' })).text).toContain('in a container');
  expect((await caller.call('session_read_file', { path: '../x' })).error).toMatchObject({ code: 'PATH_VIOLATION' });
  await caller.close();
  await sessions.close();
  await containers.close();
  expect(podman('volume', 'ls', '-q')).toContain(volume);
  podman('volume', 'rm', volume);
  await rm(dataDir, { recursive: true, force: true });
});
