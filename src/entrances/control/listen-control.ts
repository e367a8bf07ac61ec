import { chmodSync, lstatSync, mkdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { createControlApi } from './control-api.ts';
import { localCaller } from './route.ts';
import { controlSocketPath, lockSocketPath, openSocketHandle } from './socket-path.ts';

const lockPatienceMs = 10_000;

export interface ControlListener {
  close(): Promise<void>;
}

/**
 * Opens the control socket of a data directory for one gateway. The lock is a socket in the data directory itself,
 * because the control socket may lie elsewhere, depending on the environment.
 */
export async function listenControlForDataDir(
  gateway: Gateway,
  dataDir: string,
  env: NodeJS.ProcessEnv,
  address?: () => string | undefined,
  onStop?: () => void,
): Promise<ControlListener> {
  const socket = controlSocketPath(dataDir, env);
  const lock = lockSocketPath(dataDir);
  if (lock === undefined || lock === socket) return listenControl(gateway, socket, address, onStop);
  const locked = await listenControl(gateway, lock, address, onStop);
  try {
    const control = await listenControl(gateway, socket, address, onStop);
    return {
      async close() {
        await control.close();
        await locked.close();
      },
    };
  } catch (error) {
    await locked.close();
    throw error;
  }
}

/**
 * Opens a control socket. Only the user who runs the gateway can open its file. `address` is the address of the
 * gateway, once it listens. `onStop` ends the gateway.
 */
export async function listenControl(
  gateway: Gateway,
  socket: string,
  address: () => string | undefined = () => undefined,
  onStop?: () => void,
): Promise<ControlListener> {
  const folder = dirname(socket);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // The handle stays open until the end, because the socket is removed by this path.
  const { path, release } = openSocketHandle(socket);
  const api = createControlApi(gateway, address, onStop);
  const handleRequest = (request: IncomingMessage, response: ServerResponse) => {
    api.answer(request, response, localCaller).catch(() => response.destroy());
  };
  const server = createServer(handleRequest).on('checkContinue', handleRequest);
  // The lock keeps two gateways that start at once from taking each other's new socket for a stale one.
  await withLongLock(socket, lockPatienceMs, async () => {
    await removeStaleSocket(path);
    await bindPrivately(server, path);
  }).catch((error: unknown) => {
    release();
    throw error;
  });
  const { ino } = statSync(path);
  return {
    close: () =>
      new Promise((resolve) => {
        // Another gateway may have replaced the socket by its own.
        if (lstatSync(path, { throwIfNoEntry: false })?.ino === ino) rmSync(path, { force: true });
        removeFolderIfEmpty(folder);
        server.close(() => {
          release();
          resolve();
        });
        api.close();
        // The readers of streams get the end of their stream before their connection is closed.
        setImmediate(() => server.closeAllConnections());
      }),
  };
}

async function bindPrivately(server: Server, path: string): Promise<void> {
  const umask = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) =>
        reject(error.code === 'EADDRINUSE' ? alreadyRunningError() : error),
      );
      server.listen(path, resolve);
    });
  } finally {
    process.umask(umask);
  }
  chmodSync(path, 0o600);
}

async function removeStaleSocket(path: string): Promise<void> {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  const stale = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.on('error', ({ code }: NodeJS.ErrnoException) => resolve(staleSocketCodes.has(code ?? '')));
  });
  if (!stale) throw alreadyRunningError();
  rmSync(path, { force: true });
}

const staleSocketCodes = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTSOCK']);

function alreadyRunningError(): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: 'Another gateway is already running on this data directory.',
    hint: 'Stop it with "ambit stop", or choose another data directory with --data-dir.',
  });
}

/** Removes a folder that was made for the socket alone. A data directory holds more and stays. */
function removeFolderIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Not empty.
  }
}
