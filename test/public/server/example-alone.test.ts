import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSqliteStore } from '../../../src/stores/index.ts';
import { createCaller, createWorkflowClient, runWorkflow, workflowScript } from './run-workflow.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-workflow-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Started by hand, as any client starts a server on stdio. */
async function alone(mode: 'auto' | 'legacy', env: Record<string, string> = {}) {
  const connected = createWorkflowClient(mode);
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [workflowScript],
    env: { PATH: process.env.PATH ?? '', ...env },
    stderr: 'ignore',
  });
  await connected.connect(transport);
  return { call: createCaller(connected), close: () => connected.close() };
}

describe('the workflow of the example', () => {
  test('L15: alone on stdio (auto)', async () => {
    const server = await alone('auto', { AMBIT_USER_ID: 'ada' });
    await runWorkflow(server.call, 'Rivers', 'ada');
    await server.close();
  });

  test('L4, L15: alone (legacy), its session ends with the process, though nobody closes anything', async () => {
    const server = await alone('legacy', { AMBIT_USER_ID: 'ada', AMBIT_SESSION_STORE_DIR: join(folder, 'fleeting') });
    await runWorkflow(server.call, 'Rivers', 'ada');
    // One is under way when it ends.
    await server.call('start_report', { title: 'Lakes' });
    await server.close();
    const store = await openSqliteStore({ file: join(folder, 'fleeting', 'sessions.db') });
    expect(await store.list()).toMatchObject({ sessions: [] });
    await store.close();
  });

  test('L6, L15: alone, it goes on in another process where the session has a name and a folder', async () => {
    const env = { AMBIT_SESSION_ID: 'report-on-rivers', AMBIT_SESSION_STORE_DIR: join(folder, 'alone') };
    const first = await alone('legacy', env);
    await first.call('start_report', { title: 'Rivers' });
    await first.call('add_source', { source: 'a map' });
    await first.close();
    const second = await alone('legacy', env);
    expect((await second.call('draft_report')).text).toMatch(/^Rivers\n\[1\] a map/);
    await second.close();
    const store = await openSqliteStore({ file: join(folder, 'alone', 'sessions.db') });
    expect((await store.list()).sessions.map(({ id }) => id)).toEqual(['report-on-rivers']);
    await store.close();
  });
});
