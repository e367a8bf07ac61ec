import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import {
  type ControlListener,
  listenControl,
  listenControlForDataDir,
} from '../../../src/entrances/control/listen-control.ts';
import { controlSocketPath, openSocketHandle } from '../../../src/entrances/control/socket-path.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import { withLongLock } from '../../../src/lib/fs/file-lock.ts';

// Nobody sends a request here, so the gateway is not asked anything.
const noGateway = { log: { info() {}, warn() {} } } as unknown as Gateway;

test('a gateway does not judge the socket of another that is just being made', async () => {
  const path = join(createFolders().folder, 'control.sock');
  const other = createServer();
  const opening = await withLongLock(path, 10_000, async () => {
    await new Promise<void>((resolve) => other.listen(path, resolve));
    // Without the lock it would find the socket in use during this pause, and give up.
    const started = listenControl(noGateway, path).then(
      (control) => control,
      (error: Error) => error,
    );
    await delay(100);
    await new Promise((resolve) => other.close(resolve));
    return { started };
  });
  const control = await opening.started;
  expect(control).not.toBeInstanceOf(Error);
  await expect(listenControl(noGateway, path)).rejects.toThrow(/Another gateway is already running/);
  if (!(control instanceof Error)) await control.close();
});

/** A folder of ours, and the one it lies in. */
function createFolders(): { readonly above: string; readonly folder: string } {
  const above = mkdtempSync(join(tmpdir(), 'ambit-control-'));
  onTestFinished(() => rmSync(above, { recursive: true, force: true }));
  const folder = join(above, 'data');
  mkdirSync(folder, { mode: 0o700 });
  return { above, folder };
}

/** A server that says its name to whoever connects. */
async function startNamedServer(path: string, name: string): Promise<void> {
  const server = createServer((socket) => socket.end(name));
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(path, resolve));
}

test('S2: whoever looked at the folder of a control socket reaches the socket in it, whatever takes its name', async () => {
  const { above, folder } = createFolders();
  await startNamedServer(join(folder, 'control.sock'), 'ours');
  const way = openSocketHandle(join(folder, 'control.sock'));
  renameSync(folder, join(above, 'moved'));
  mkdirSync(folder);
  await startNamedServer(join(folder, 'control.sock'), 'theirs');
  const heard = await new Promise<string>((resolve, reject) => {
    connect(way.path)
      .on('data', (chunk) => resolve(chunk.toString()))
      .on('error', reject);
  });
  way.release();
  expect(heard).toBe('ours');
});

test('S2: a control socket where others could put another is neither made nor asked', async () => {
  const { above, folder } = createFolders();
  const path = join(folder, 'control.sock');
  for (const exposed of [above, folder]) {
    chmodSync(exposed, 0o777);
    expect(() => openSocketHandle(path)).toThrow(/another user/);
    await expect(listenControl(noGateway, path)).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
    chmodSync(exposed, 0o700);
  }
  expect(readdirSync(folder)).toEqual([]);
  const control = await listenControl(noGateway, path);
  expect(existsSync(path)).toBe(true);
  await control.close();
  expect(existsSync(path)).toBe(false);
});

test('where its path is too long, the socket lies in the runtime folder of the user, under a hash', () => {
  const deep = join('/', ...Array.from({ length: 8 }, () => 'a-rather-long-name'));
  const socket = controlSocketPath(deep, { XDG_RUNTIME_DIR: '/run/user/7' });
  expect(socket).toMatch(/^\/run\/user\/7\/ambit-\d+-[0-9a-f]{16}\/control\.sock$/);
  expect(controlSocketPath('/short', { XDG_RUNTIME_DIR: '/run/user/7' })).toBe('/short/control.sock');
});

test('one data directory has one gateway, wherever the socket of each would lie', async () => {
  const { above } = createFolders();
  const dataDir = join(above, ...Array.from({ length: 8 }, () => 'a-rather-long-name'));
  const runtimes = ['one', 'two'].map((name) => join(above, name));
  for (const folder of [dataDir, ...runtimes]) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const environments = [{}, ...runtimes.map((folder) => ({ XDG_RUNTIME_DIR: folder }))];
  const start = (env: NodeJS.ProcessEnv) => listenControlForDataDir(noGateway, dataDir, env);
  for (const env of environments) {
    const first: ControlListener = await start(env);
    for (const other of environments) {
      await expect(start(other)).rejects.toThrow(/Another gateway is already running on this data directory/);
    }
    expect(existsSync(controlSocketPath(dataDir, env))).toBe(true);
    await first.close();
    expect([dataDir, ...runtimes].flatMap((folder) => (existsSync(folder) ? readdirSync(folder) : []))).toEqual([]);
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  }
});
