import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isProcessRunning, readProcessStart } from '../../src/entrances/control/gateway-registry.ts';
import { ambitInProcess } from '../cli/in-process.ts';
import { sendModern } from './raw-mcp-client.ts';
import { requestControl } from './request-control.ts';
import { runAmbit, spawnAmbit } from './start-ambit.ts';

let folder: string;
let flags: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-background-'));
  const talks = "console.error('first words of ' + process.env.AMBIT_SESSION_ID)";
  const servers = { talks: { command: 'node', args: ['-e', talks], era: 'modern' } };
  writeFileSync(join(folder, 'ambit.yaml'), JSON.stringify({ version: 1, servers }));
  writeFileSync(join(folder, 'other.yaml'), '{"version":1}');
  flags = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'data')];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const ask = <T>(method: string, path: string, body?: object) =>
  requestControl<T>(join(folder, 'data/control.sock'), method, path, body);
type Status = { readonly gateway: { readonly pid: number; readonly url: string } };

test('a gateway in the background starts, is shown, is followed, and ends', async () => {
  const started = await runAmbit(['serve', '--background', '--json', '--port', '0', ...flags]);
  expect(started).toMatchObject({ code: 0, stderr: expect.stringContaining('running in the background') });
  const { url } = JSON.parse(started.stdout) as { url: string };
  const { gateway } = JSON.parse((await ambitInProcess(['status', '--json', ...flags])).stdout) as Status;
  const { pid } = gateway;
  expect(gateway).toMatchObject({ url, logFile: join(folder, 'data/gateway.log') });
  expect(statSync(join(folder, 'data/gateway.log')).mode & 0o777).toBe(0o600);
  // It leads a session of its own, so that no terminal can hang it up.
  if (process.platform === 'linux') expect(readFileSync(`/proc/${pid}/stat`, 'latin1')).toMatch(` ${pid} ${pid} 0 -1 `);

  const again = await ambitInProcess(['serve', '--background', '--port', '0', ...flags]);
  expect(again).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(`is running already at ${url}`) });
  const taken = ['--port', new URL(url).port, '--config', join(folder, 'other.yaml')];
  const blocked = await ambitInProcess(['serve', ...taken, '--data-dir', join(folder, 'other')]);
  expect(blocked).toMatchObject({ code: 1, stderr: expect.stringContaining(`(pid ${pid}) uses this port`) });

  const follower = spawnAmbit(['logs', 'talks', '--follow', ...flags]);
  const following = Promise.all([text(follower.stdout!), text(follower.stderr!), once(follower, 'close')]);
  const followed = once(follower.stdout!, 'data');
  const { token, id } = await ask<{ token: string; id: string }>('POST', '/api/v1/sessions', { trustLevel: 'direct' });
  // The server ends before it answers, and then its lines are in the log.
  const answer = await sendModern(`${url}/mcp/talks`, token, { method: 'tools/list' });
  expect(await answer.next()).toContain('first words');
  await followed;

  const processStart = readProcessStart(pid) ?? null;
  const stopped = await runAmbit(['stop', '--json', ...flags]);
  expect(isProcessRunning({ pid, processStart })).toBe(false);
  expect(stopped).toMatchObject({ code: 0, stderr: expect.stringContaining('stopped the gateway of') });
  expect(JSON.parse(stopped.stdout)).toEqual({ stopped: true, pid });
  const short = id.slice(0, 8);
  const [printed, said, [code]] = await following;
  expect(printed).toMatch(new RegExp(`^[\\d -:]{19}  ${short}  \\d+  first words of ${short}\\n$`));
  expect([code, said]).toEqual([0, expect.stringContaining('the gateway has ended')]);
  expect((await ambitInProcess(['logs', '-n', '1', ...flags])).stdout).toBe('ambit: shutting down\n');
});

test('one that cannot start says why', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  const { code, stdout, stderr } = await runAmbit(['serve', '--background', '--port', String(port), ...flags]);
  other.close();
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toContain(`cannot listen on 127.0.0.1:${port}: another program uses this port`);
});
