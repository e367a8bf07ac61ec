import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AnswerOf } from '../../../src/entrances/control/routes.ts';
import { createInProcessTransport } from '../../../src/public/create-gateway.ts';
import { createRawClient } from '../../gateway/raw-client.ts';
import { ambitInProcess, onlyStoreNote, openControlledGateway } from '../in-process.ts';

let folder: string;
let places: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-stats-'));
  const file = join(folder, 'ambit.yaml');
  writeFileSync(file, 'version: 1\nstore: { kind: memory }\n');
  places = ['--config', file, '--data-dir', join(folder, 'data')];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));
const ambit = (...words: string[]) => ambitInProcess([...words, ...places]);

/** Writes calls of many tools, some refused, in the last minutes. */
function writeCalls(): void {
  mkdirSync(join(folder, 'data/journal'), { recursive: true, mode: 0o700 });
  const lines = Array.from({ length: 300 }, (_, i) => ({
    time: new Date(Date.now() - 600_000 + i * 1000).toISOString(),
    kind: 'call',
    sessionId: i % 3 === 0 ? 'a1b2c3d4' : 'ffffffff',
    ...{ server: 'notes', method: 'tools/call', name: `notes__tool-${Math.floor(Math.sqrt(i))}`, ms: i + 1 },
    ...(i % 10 === 0 ? { outcome: 'PERMISSION_DENIED', rule: `rule-${i % 100}` } : { outcome: 'ok' }),
  }));
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  appendFileSync(join(folder, 'data/journal/journal.jsonl'), text, { mode: 0o600 });
}

test('numbers fit on a terminal of 80 columns and 24 lines, with and without a gateway', async () => {
  writeCalls();
  const offline = await ambit('stats', '--since', '1h');
  expect(offline).toMatchObject({ code: 0, stderr: onlyStoreNote });
  const lines = offline.stdout.trimEnd().split('\n');
  expect(lines.length).toBeLessThanOrEqual(24);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  expect(offline.stdout).toContain('300, of which 30 failed');
  expect(offline.stdout).toMatch(/REFUSALS +CODE +RULE\n3 +PERMISSION_DENIED +rule-0\n/);
  expect(offline.stdout).toMatch(/CALLS +FAILED +MEDIAN +P99 +SERVER +TOOL\n33 +\d+ +\d+ ms +\d+ ms +notes +tool-16\n/);
  expect(offline.stdout).toContain('… and 6 more rules; all of them with --json');
  const { stdout } = await ambit('stats', '--session', 'a1b2', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ complete: true, totals: { calls: 100, errors: 10 } });

  const { gateway, close } = await openControlledGateway(places[1] as string, places[3] as string);
  try {
    const numbers = JSON.parse((await ambit('stats', '--json')).stdout) as AnswerOf<'GET /api/v1/stats'>;
    expect(numbers).toMatchObject({ stepSeconds: 900, complete: true, totals: { calls: 300, refusals: 30 } });
    await gateway.openSession({ name: 'task-7' });
    const ofOne = JSON.parse((await ambit('stats', '--session', 'task-7', '--json')).stdout) as typeof numbers;
    expect(ofOne.totals).toMatchObject({ calls: 0, sessionsOpened: 1, p50: null });
  } finally {
    await close();
  }
});

test('an empty journal, and a time range that is not valid', async () => {
  const { code, stdout } = await ambit('stats');
  expect([code, stdout]).toEqual([0, expect.stringContaining('0, of which 0 failed')]);
  expect(await ambit('stats', '--since', '40d')).toMatchObject({ code: 1 });
  expect(await ambit('stats', '--since', 'soon')).toMatchObject({ code: 2 });
});

test('processes are listed by a running gateway', async () => {
  expect(await ambit('process', 'list')).toMatchObject({ code: 1, stderr: expect.stringContaining('gateway') });
  const script = join(import.meta.dirname, '../../fixtures/reloaded/server.js');
  const server = `{ command: ${process.execPath}, args: [${script}], env: { ERA: modern }, era: modern }`;
  writeFileSync(places[1] as string, `version: 1\nstore: { kind: memory }\nservers: { notes: ${server} }\n`);
  const { gateway, close } = await openControlledGateway(places[1] as string, places[3] as string);
  try {
    expect((await ambit('process', 'list')).stdout).toContain('No server process is running.');
    const { session } = await gateway.openSession({ trustLevel: 'direct' });
    const client = await createRawClient(createInProcessTransport(gateway, session.id, 'notes'), 'modern');
    await client.request('tools/call', { name: 'mark', arguments: {} });
    const { stdout } = await ambit('process', 'list', '--session', session.id);
    expect(stdout).toMatch(
      /^SERVER +SESSION +PID +RUNNER +AGE +IDLE +MEMORY\nnotes +[0-9a-f]{8} +\d+ +plain +\d+s +\d+s /,
    );
    const { processes } = JSON.parse((await ambit('process', 'list', '--server', 'notes', '--json')).stdout);
    expect(processes).toMatchObject([{ server: 'notes', sessionId: session.id }]);
    await client.close();
  } finally {
    await close();
  }
});
