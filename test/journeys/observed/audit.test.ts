import { once } from 'node:events';
import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RecordedEntry } from '../../../src/observability/journal/read-entries.ts';
import { ambitInProcess } from '../../cli/in-process.ts';
import { findSample } from '../../observability/metrics/read-samples.ts';
import { callModern } from '../raw-mcp-client.ts';
import { type CreatedSession, type RunningAmbit, repository, spawnAmbit, startAmbit } from '../start-ambit.ts';

const garden = mkdtempSync(join(tmpdir(), 'ambit-garden-'));
let ambit: RunningAmbit;
let session: CreatedSession;
let flags: string[];

beforeAll(async () => {
  writeFileSync(join(garden, 'plan.txt'), 'beans\n');
  ambit = await startAmbit({
    // Only the gateway can read this store, but everybody can read the journal.
    store: { kind: 'memory' },
    servers: { who: { command: process.execPath, args: [join(repository, 'examples/who-calls/server.js')] } },
    workspaces: { garden: { path: garden } },
  });
  flags = ['--config', join(ambit.folder, 'etc/ambit.yaml'), '--data-dir', ambit.dataDir];
  session = await ambit.session({ name: 'task#049', workspaceId: 'garden' });
  const call = async (name: string, args: string) =>
    (await callModern(`${ambit.url}/mcp`, session.token, name, args)).rest();
  await call('who__list_notes', '{}');
  await call('who__add_note', '{"text":""}');
  await call('session_read_file', '{"session":"task#049","path":"../secret"}');
});
afterAll(async () => {
  await ambit.stop();
  rmSync(garden, { recursive: true, force: true });
});

const audit = (...words: string[]) => ambitInProcess(['audit', ...words, ...flags]);
async function search(...words: string[]): Promise<RecordedEntry[]> {
  const { code, stdout } = await audit('search', ...words, '--json');
  expect(code).toBe(0);
  return stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as RecordedEntry);
}

test('P11, P15: the line that a server writes at its start is found by its session', async () => {
  const short = session.id.slice(0, 8);
  const [started] = await search('--server', 'who', '--kind', 'process', 'started');
  expect(started).toMatchObject({
    sessionId: session.id,
    runner: 'plain',
    pid: expect.any(Number),
    id: expect.any(String),
  });
  const found = await search('--session', short, `session=${short}`, 'inherited');
  expect(found).toMatchObject([{ kind: 'process', event: 'stderr', server: 'who', pid: started?.['pid'] }]);
  expect(await search('--session', 'task#049', '--kind', 'process')).toEqual(
    expect.arrayContaining([...found, started]),
  );
});

test('lines of a session that has ended are found by its name', async () => {
  const { id } = await ambit.session({ name: 'task#050' });
  await ambitInProcess(['session', 'end', 'task#050', ...flags]);
  const found = await search('--session', 'task#050', '--kind', 'session');
  expect(found.map(({ sessionId, event }) => [sessionId, event])).toEqual([
    [id, 'ended'],
    [id, 'created'],
  ]);
});

test('W2, W4: the session and the path that a tool was asked for are found with what they led to', async () => {
  const [file] = await search('--tool', 'session_read_file', '--kind', 'file', '--since', '1h');
  expect(file).toMatchObject({
    sessionId: session.id,
    asked: '../secret',
    decision: 'refused',
    code: 'PATH_VIOLATION',
  });
  const shown = await audit('show', String(file?.['id']), '--json');
  expect(JSON.parse(shown.stdout)).toMatchObject({
    id: file?.['id'],
    entries: [{ kind: 'session', event: 'resolved', asked: 'task#049', sessionId: session.id }, file, { kind: 'call' }],
  });
});

test('L8: a tool that fails is told from a call that was not answered, in the journal and in the metrics', async () => {
  const calls = await search('--tool', 'add_note');
  expect(calls).toMatchObject([{ kind: 'call', server: 'who', name: 'who__add_note', outcome: 'tool-error' }]);
  expect((await search('--outcome', 'error')).map(({ outcome, decision }) => outcome ?? decision)).toEqual([
    ...['PATH_VIOLATION', 'refused', 'tool-error'],
  ]);
  const metrics = await (await fetch(`${ambit.url}/metrics`)).text();
  const count = (outcome: string) =>
    findSample(metrics, 'ambit_calls_total', { server: 'who', method: 'tools/call', outcome });
  expect([count('ok'), count('tool-error')]).toEqual([1, 1]);
});

test('a call is shown with the start of its process, for people with short ids and without controls', async () => {
  const [call] = await search('--tool', 'add_note');
  const { code, stdout, stderr } = await audit('show', String(call?.['id']).slice(0, 8));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^outcome +tool-error$/m);
  const lines = stdout.split('\n').slice(stdout.split('\n').indexOf('') + 1, -1);
  expect(lines.map((line) => line.slice(36))).toEqual([
    'ENTRY',
    expect.stringMatching(/^process started who, \d.* ms, runner=plain, pid=\d+$/),
    expect.stringMatching(/^process who: who-calls: session=/),
    expect.stringMatching(/^call who__add_note: tool-error, \d/),
  ]);
  expect(stdout).not.toContain(session.id);
  expect(await audit('show', 'nothing')).toMatchObject({ code: 1, stdout: '' });
});

test('C3: without a gateway the files are read, and followed while another process rotates them', async () => {
  ambit.process.kill();
  await once(ambit.process, 'exit');
  const hostile = {
    time: new Date().toISOString(),
    kind: 'call',
    id: 'last',
    name: 'x\u001b]0;owned\u0007\u202e\n\u2028y',
    outcome: 'ok',
  };
  const file = join(ambit.dataDir, 'journal/journal.jsonl');
  appendFileSync(file, `${JSON.stringify(hostile)}\n{"time":"2026-`);
  const { code, stdout, stderr } = await audit('tail', '-n', '1');
  expect(code).toBe(0);
  expect(stderr).toMatch(/^ambit: no gateway is running.*\nambit: 1 damaged line skipped\n$/);
  expect(stdout.split('\n')).toHaveLength(3);
  expect(stdout).not.toMatch(/[\p{Cf}\p{Zl}\u0000-\u0009\u000b-\u001f]/u);
  expect(await search('--session', session.id.slice(0, 6), '--kind', 'session', 'created')).toHaveLength(1);

  const follower = spawnAmbit(['audit', 'tail', '-n', '1', '--follow', '--json', ...flags]);
  const lines = createInterface({ input: follower.stdout! })[Symbol.asyncIterator]();
  const readId = async () => (JSON.parse((await lines.next()).value as string) as RecordedEntry)['id'];
  const line = (id: string) => `${JSON.stringify({ ...hostile, id })}\n`;
  expect(await readId()).toBe('last');
  appendFileSync(file, `\n${line('new')}`);
  expect(await readId()).toBe('new');
  renameSync(file, join(ambit.dataDir, 'journal/journal-20260101T000000000Z-abcdef.jsonl'));
  writeFileSync(file, line('newer'));
  expect(await readId()).toBe('newer');
  follower.kill('SIGINT');
  expect(await once(follower, 'exit')).toEqual([null, 'SIGINT']);
});

test('wrong values are usage errors', async () => {
  for (const words of [
    ['--since', 'yesterday'],
    ['--kind', 'calls'],
    ['--limit', '0'],
    ['--user', ''],
  ]) {
    expect(await audit('search', ...words)).toMatchObject({ code: 2, stdout: '' });
  }
  expect(await audit('tail', '-n', '-1')).toMatchObject({ code: 2, stdout: '' });
});
