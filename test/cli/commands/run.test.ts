import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import { repository } from '../../structure/source-files.ts';

const script = join(repository, 'test/fixtures/reloaded/server.js');
const folder = mkdtempSync(join(tmpdir(), 'ambit-credential-run-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The answer of a wrapped server to one call. */
async function runWrapped(args: readonly string[], name = 'notes'): Promise<string> {
  const run = [join(repository, 'bin/ambit.js'), 'run', '--name', name, '--trust', 'direct'];
  const places = ['--config', join(folder, 'ambit.json'), '--data-dir', join(folder, 'data')];
  const child = spawn(process.execPath, [...run, ...places, '--', ...args]);
  const say = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const clientInfo = { name: 'raw', version: '1' };
  say({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo } });
  for await (const line of createInterface({ input: child.stdout })) {
    const { id, result } = JSON.parse(line) as { id?: number; result?: { content?: { text: string }[] } };
    if (id === 1) say({ method: 'notifications/initialized' });
    if (id === 1) say({ id: 2, method: 'tools/call', params: { name: 'mark', arguments: {} } });
    if (id !== 2) continue;
    child.stdin.end();
    await new Promise((resolve) => child.once('exit', resolve));
    return result?.content?.[0]?.text ?? line;
  }
  throw new Error('it did not answer');
}

test('a wrapped server finds the credential by itself; another command, or one not approved, finds none', async () => {
  const file = join(folder, 'ambit.json');
  const server = { command: process.execPath, args: [script] };
  writeFileSync(file, JSON.stringify({ version: 1, include: ['.mcp.json'], servers: { notes: server } }));
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { project: server } }));
  const { config } = await loadConfig({ file });
  const places = { configFile: file, dataDir: join(folder, 'data') };
  const stored = await openGateway({ ...places, config, log: { info() {}, warn() {} } });
  for (const name of ['notes', 'project']) {
    await stored.credentials.set({ userId: 'local', server: name, env: 'MARK' }, 'own');
  }
  await stored.close();
  expect(await runWrapped([process.execPath, script])).toBe('own');
  expect(await runWrapped([process.execPath, '--no-warnings', script])).toBe('');
  expect(await runWrapped([process.execPath, script], 'project')).toBe('');
});
