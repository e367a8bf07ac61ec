import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createGateway } from '../../src/index.ts';
import { formatTextLine } from '../../src/observability/log/stderr-log.ts';
import { waitUntilAtMost } from '../journeys/wait-until.ts';
import { taggedProcesses } from '../sandbox/tagged-processes.ts';
import { sdkClients } from './sdk-clients.ts';

const script = join(import.meta.dirname, '..', 'fixtures', 'reloaded', 'server.js');
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-library-'));
});

afterEach(async () => {
  await rm(folder, { recursive: true, force: true });
});

test('a gateway from a file serves this process and others, reloads from it, and closes', async () => {
  const file = join(folder, 'ambit.yaml');
  const dataDir = join(folder, 'data');
  const describe = (mark: string) =>
    writeFile(
      file,
      `version: 1
sessions: { defaultTrust: direct }
servers:
  here: { command: ${process.execPath}, args: [${script}], env: { MARK: ${mark} } }
`,
    );
  await describe('before');
  const warnings: string[] = [];
  const gateway = await createGateway({
    config: file,
    dataDir,
    log: { info() {}, warn: (event, fields) => void warnings.push(formatTextLine(event, fields)) },
  });
  const { id, token } = await gateway.createSession();
  const client = await sdkClients['SDK v1'](gateway.connect(id));
  expect(await client.call('here__mark')).toBe('before');

  await expect(gateway.listen({ host: '0.0.0.0', port: 0 })).rejects.toThrow('not loopback');
  const { url } = await gateway.listen({ host: '127.0.0.1', port: 0 });
  const initialize = {
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'other', version: '1' } },
  };
  const answered = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify(initialize),
  });
  expect(await answered.json()).toMatchObject({ id: 1, result: { serverInfo: { name: 'ambit' } } });

  await describe('after');
  expect(await gateway.reload(file)).toEqual(['here']);
  expect(await client.call('here__mark')).toBe('after');
  expect(await gateway.reload(file)).toEqual([]);
  await client.close();
  await gateway.close();
  const left = () => taggedProcesses(dataDir).length;
  await waitUntilAtMost(left, 0, 50_000);
});

test('a session that is not there cannot be connected to', async () => {
  const gateway = await createGateway({ config: { version: 1 }, dataDir: join(folder, 'data') });
  await expect(gateway.connect('nobody').start()).rejects.toThrow(
    expect.objectContaining({ code: 'SESSION_NOT_FOUND' }),
  );
  await gateway.close();
});
