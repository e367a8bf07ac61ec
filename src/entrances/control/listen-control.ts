import { chmodSync, lstatSync, mkdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { withLongLock } from '../../lib/fs/file-lock.ts';
import { createControlApi } from './control-api.ts';
import { controlSocketPath, lockSocketPath, openSocketWay } from './socket-path.ts';

const lockPatienceMs = 10_000;

export interface ControlListener {
  close(): Promise<void>;
}

/**
 * The control socket of a data directory. One gateway has it: its lock is a socket in the data directory itself, whatever the
 * environment says of where the other one lies.
 */
export async function listenControlOf(
  gateway: Gateway,
  dataDir: string,
  env: NodeJS.ProcessEnv,
  address?: () => string | undefined,
): Promise<ControlListener> {
  const socket = controlSocketPath(dataDir, env);
  const lock = lockSocketPath(dataDir);
  if (lock === undefined || lock === socket) return listenControl(gateway, socket, address);
  const locked = await listenControl(gateway, lock, address);
  try {
    const control = await listenControl(gateway, socket, address);
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
 * The control socket: the control API for whoever may open a file of ours, which is the user who runs us. `address` is
 * where clients reach the gateway, once it listens.
 */
export async function listenControl(
  gateway: Gateway,
  socket: string,
  address: () => string | undefined = () => undefined,
): Promise<ControlListener> {
  const folder = dirname(socket);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // Held until the end: the socket is removed by the name it was made by.
  const { path, release } = openSocketWay(socket);
  const api = createControlApi(gateway, address);
  const handleRequest = (request: IncomingMessage, response: ServerResponse) => {
    api.answer(request, response).catch(() => response.destroy());
  };
  const server = createServer(handleRequest).on('checkContinue', handleRequest);
  // Of two gateways that start at the same moment, one could take the fresh socket of the other for a stale one.
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
        // Only our own: another gateway may have taken the place meanwhile.
        if (lstatSync(path, { throwIfNoEntry: false })?.ino === ino) rmSync(path, { force: true });
        removeFolderIfEmpty(folder);
        server.closeAllConnections();
        server.close(() => {
          release();
          resolve();
        });
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
    hint: 'Stop it first, or choose another one with --data-dir.',
  });
}

/** A folder made for the socket alone goes with it; a data directory holds more. */
function removeFolderIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Not empty.
  }
}
