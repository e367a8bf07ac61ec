import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import { formatTextLine } from '../../../src/observability/log/stderr-log.ts';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-project-'));
/** The agent works here and may write what it likes. */
const workspace = join(folder, 'project');
const project = join(workspace, '.mcp.json');
const config = join(folder, 'etc', 'ambit.json');
const warnings: string[] = [];
let gateway: EmbeddedGateway;
let sessionId: string;
const clients: RawClient[] = [];

beforeAll(async () => {
  mkdirSync(workspace);
  mkdirSync(join(folder, 'etc'));
  const main = {
    version: 1,
    sessions: { defaultTrust: 'direct' },
    include: ['../project/.mcp.json'],
    servers: { own: { ...stdioRecorder, env: { KEPT: 'as it is' } } },
    workspaces: { project: { path: workspace } },
  };
  writeFileSync(config, JSON.stringify(main));
  writeFileSync(project, '{"mcpServers":{}}');
  gateway = await createGateway({
    config,
    dataDir: join(folder, 'data'),
    log: { info() {}, warn: (event, fields) => void warnings.push(formatTextLine(event, fields)) },
  });
  sessionId = (await gateway.createSession({ userId: 'ada', workspaceId: 'project' })).id;
});

afterAll(async () => {
  for (const client of clients) await client.close();
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

async function call(server: string): Promise<string> {
  const client = await createRawClient(gateway.connect(sessionId, server), 'modern');
  clients.push(client);
  return client.call('environment');
}

async function edit(server: string, entry: object): Promise<void> {
  warnings.length = 0;
  writeFileSync(project, JSON.stringify({ mcpServers: { [server]: entry } }));
  await gateway.reload(config);
}

const program = stdioRecorder;

test.each([
  'AMBIT_SESSION_ID',
  'AMBIT_TRUST_LEVEL',
  'ambit_user_id',
  'AMBIT_JWKS',
  'AMBIT_CONTEXT_KEY_FILE',
  'AMBIT_AUDIENCE',
  'PARACHUTE_TRUST_LEVEL',
  'NODE_OPTIONS',
])('P4: an agent that writes %s into its project’s file gets no server by it', async (name) => {
  await edit('mine', { ...program, env: { [name]: 'forged' } });
  expect(warnings.join()).toContain(`env ${name}`);
  expect(await call('mine')).toMatch(/^SERVER_NOT_AVAILABLE/);
});

test.each(['Txn-Token', 'txn-token', 'TXN-TOKEN'])('P4: nor by the header %s', async (name) => {
  await edit('mine', { url: 'http://127.0.0.1:9/mcp', headers: { [name]: 'forged' } });
  expect(warnings.join()).toMatch(/txn-token/i);
  expect(await call('mine')).toMatch(/^SERVER_NOT_AVAILABLE/);
});

test('P4: it cannot take the place of the operator’s server, nor add one without a person', async () => {
  await edit('own', { ...program, env: { KEPT: 'forged' } });
  const told = JSON.parse(await call('own')) as Record<string, string>;
  expect(told).toMatchObject({
    KEPT: 'as it is',
    AMBIT_SESSION_ID: sessionId,
    AMBIT_USER_ID: 'ada',
    AMBIT_TRUST_LEVEL: 'direct',
    AMBIT_WORKSPACE_ID: 'project',
  });
  await edit('mine', program);
  expect(await call('mine')).toMatch(/^SERVER_NOT_APPROVED/);
});
