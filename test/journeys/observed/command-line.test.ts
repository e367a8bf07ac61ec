import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, expect, test } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { fileFlags, spawnRun } from '../start-ambit.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-flags-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('L8, L14: ambit run with logs as JSON and sessions named, by flag and environment', async () => {
  const flags = ['--trust', 'direct', '--log-format', 'json'];
  const env = { AMBIT_LOG_LEVEL: 'debug', AMBIT_SESSION_INCLUDE_META: 'true' };
  const child = spawnRun(folder, [stdioRecorder.command, ...stdioRecorder.args], { flags, env });
  const words = text(child.stderr);
  const exited = once(child, 'exit');
  const answered = once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>;
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  child.stdin.end(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`);
  const [answer] = await answered;
  expect(await exited).toEqual([0, null]);
  const { result } = JSON.parse(answer) as { result: { _meta: { 'ambit/session': Record<string, string> } } };
  const { sessionId = '', correlationId = '' } = result._meta['ambit/session'];
  expect(sessionId).toMatch(/^[0-9a-f]{32}$/);
  const lines = (await words)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  for (const line of lines) {
    expect(line).toMatchObject({
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      level: expect.stringMatching(/^(?:debug|info|warn)$/),
    });
  }
  const [session, correlation] = [sessionId.slice(0, 8), correlationId.slice(0, 8)];
  expect(lines).toContainEqual(expect.objectContaining({ event: 'context injected', server: 'stdio', session }));
  expect(lines).toContainEqual(
    expect.objectContaining({ event: 'call', method: 'initialize', session, correlation, user: 'local' }),
  );
  expect(JSON.stringify(lines)).not.toContain(sessionId);
});

test('invalid levels, formats and booleans are refused as usage errors', async () => {
  const before = process.env['AMBIT_SESSION_INCLUDE_META'];
  const run = (...flags: string[]) =>
    ambitInProcess(['run', ...flags, ...fileFlags(folder), '--', stdioRecorder.command, ...stdioRecorder.args]);
  expect(await run('--log-level', 'loud')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('"debug", "info" or "warn"'),
  });
  expect(await run('--log-format', 'xml')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('"text" or "json"'),
  });
  process.env['AMBIT_SESSION_INCLUDE_META'] = 'perhaps';
  try {
    expect(await run()).toMatchObject({ code: 2, stderr: expect.stringContaining('true or false') });
  } finally {
    if (before === undefined) delete process.env['AMBIT_SESSION_INCLUDE_META'];
    else process.env['AMBIT_SESSION_INCLUDE_META'] = before;
  }
});
