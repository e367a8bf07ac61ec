import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openDatabase } from '../../../src/stores/sqlite/driver.ts';
import { taggedProcesses, until } from '../../sandbox/tagged-processes.ts';
import { spawnRun } from '../start-ambit.ts';
import { findLeftovers, maxWaitMs, upstreamProgram } from '../start-probed-ambit.ts';
import { waitUntilEmpty } from '../wait-until.ts';

test('L4: "ambit run" ends its session although other processes keep the store locked when its client leaves', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-locked-'));
  const dataDir = join(folder, 'data');
  const run = spawnRun(folder, [process.execPath, upstreamProgram]);
  const exited = once(run, 'exit');
  onTestFinished(async () => {
    run.kill('SIGKILL');
    await exited;
    await waitUntilEmpty(() => taggedProcesses(`${dataDir}/`), maxWaitMs);
    rmSync(folder, { recursive: true, force: true });
  });
  let [said, complained] = ['', ''];
  run.stdout.on('data', (chunk: Buffer) => {
    said += chunk;
  });
  run.stderr.on('data', (chunk: Buffer) => {
    complained += chunk;
  });
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', _meta } };
  run.stdin.write(`${JSON.stringify(call)}\n`);
  await until(
    () => said.includes('"result"'),
    maxWaitMs,
    () => `no answer: ${complained}`,
  );

  const other = openDatabase(join(dataDir, 'sessions.db'));
  onTestFinished(() => other.close());
  // The gateway may be writing at this moment.
  other.exec('PRAGMA busy_timeout = 50000');
  const readReasons = () => other.prepare('SELECT reason FROM sessions').all();
  other.exec('BEGIN IMMEDIATE');
  expect(readReasons()).toEqual([{ reason: null }]);
  run.stdin.end();
  await until(
    () => complained.includes('session not ended yet, retrying') || run.exitCode !== null,
    maxWaitMs,
    () => `no complaint: ${complained}`,
  );
  other.exec('COMMIT');
  expect(await exited).toEqual([0, null]);
  expect(readReasons()).toEqual([{ reason: 'closed' }]);
  expect(findLeftovers(dataDir)).toEqual({ processes: [], tmp: [], run: [] });
});
