import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createTestGateway } from '../../../src/public/testing/index.ts';
import { type CallTool, createCaller, createWorkflowClient, runWorkflow, workflowScript } from './run-workflow.ts';

test('L3, L15: the workflow of the example behind the gateway, unchanged; two sessions of one process interleaved never mix', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-workflow-'));
  const workflow = { command: process.execPath, args: [workflowScript], era: 'modern' as const };
  const gateway = await createTestGateway({
    servers: {
      shared: { ...workflow, scope: 'shared', contextAware: true },
      // A process for each call: what is kept lies in the folder alone.
      fleeting: { ...workflow, scope: 'call', env: { AMBIT_SESSION_STORE_DIR: join(folder, 'behind') } },
    },
  });
  const opened = await Promise.all(
    ['ada', 'bob'].map(async (userId) => {
      const connected = createWorkflowClient('auto');
      await connected.connect(gateway.connect((await gateway.createSession({ userId })).id) as never);
      return { userId, connected, call: createCaller(connected, 'shared__') };
    }),
  );
  await Promise.all(opened.map(({ userId, call }) => runWorkflow(call, `Rivers of ${userId}`, userId)));

  const [ada, bob] = opened.map(({ connected }) => createCaller(connected, 'fleeting__')) as [CallTool, CallTool];
  await ada('start_report', { title: 'Lakes' });
  expect((await bob('add_source', { source: 'of bob' })).text).toMatch(/call start_report first/);
  expect((await ada('add_source', { source: 'of ada' })).text).toMatch(/^1 so far/);
  for (const { connected } of opened) await connected.close();
  await gateway.close();
  await rm(folder, { recursive: true, force: true });
});
