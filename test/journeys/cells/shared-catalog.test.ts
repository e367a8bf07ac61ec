import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectClient } from '../clients/connect/connect-client.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';
import { limitToServer } from './limit-to-server.ts';

const server = join(repository, 'test', 'fixtures', 'conformance', 'stdio.js');
let ambit: RunningAmbit;

beforeAll(async () => {
  ambit = await startAmbit({ servers: { fixture: { command: process.execPath, args: [server], era: 'modern' } } });
});

afterAll(() => ambit?.stop());

async function visitor() {
  const { token } = await ambit.session();
  return limitToServer(
    await connectClient('v1', { kind: 'http', url: `${ambit.url}/mcp`, token }, ambit.folder),
    'fixture',
  );
}

// The catalog is for all sessions, but each session has a process of its own: what changed in one is that one's own.
test('a session sees its own server change, whatever another session asks meanwhile', async () => {
  const [changing, asking] = [await visitor(), await visitor()];
  await changing.streamOpened;
  await changing.tools();
  const said = await changing.call('test_trigger_tool_change');
  await changing.heard.waitFor(({ method }) => method === 'notifications/tools/list_changed');
  await asking.tools();
  expect(said).toBe('Revision 1');
  expect(JSON.stringify(await changing.tools())).toContain(said);
});
