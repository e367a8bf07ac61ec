import { chmodSync, lstatSync, mkdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { createAdminDoor } from './answer-admin.ts';
import { assertPrivate } from './socket-path.ts';

/**
 * The control socket: the control API for whoever may open a file of ours, which is the user who runs us. `address` is
 * where clients reach the gateway, once it listens.
 */
export async function listenControl(
  gateway: Gateway,
  path: string,
  address: () => string | undefined = () => undefined,
): Promise<{ close(): Promise<void> }> {
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  assertPrivate(folder);
  await removeStale(path);
  const door = createAdminDoor(gateway, address);
  const server = createServer((request, response) => {
    door.answer(request, response).catch(() => response.destroy());
  });
  const umask = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', (error: NodeJS.ErrnoException) =>
        reject(error.code === 'EADDRINUSE' ? alreadyRunning() : error),
      );
      server.listen(path, resolve);
    });
  } finally {
    process.umask(umask);
  }
  chmodSync(path, 0o600);
  const { ino } = statSync(path);
  return {
    close: () =>
      new Promise((resolve) => {
        // Only our own: another gateway may have taken the place meanwhile.
        if (lstatSync(path, { throwIfNoEntry: false })?.ino === ino) rmSync(path, { force: true });
        removeIfEmpty(folder);
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

async function removeStale(path: string): Promise<void> {
  const found = identityOf(path);
  if (found === undefined) return;
  const stale = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.on('error', ({ code }: NodeJS.ErrnoException) => resolve(deadSigns.has(code ?? '')));
  });
  if (!stale) throw alreadyRunning();
  // Two that start at the same moment both find the stale one: only that is removed, not the other's fresh one.
  if (identityOf(path) === found) rmSync(path, { force: true });
}

const deadSigns = new Set(['ECONNREFUSED', 'ENOENT', 'ENOTSOCK']);

/** The number of a removed file may be given to the next one, so the number alone says little. */
function identityOf(path: string): string | undefined {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return stat === undefined ? undefined : `${stat.ino} ${stat.birthtimeNs} ${stat.ctimeNs}`;
}

function alreadyRunning(): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: 'Another gateway is already running on this data directory.',
    hint: 'Stop it first, or choose another one with --data-dir.',
  });
}

/** A folder made for the socket alone goes with it; a data directory holds more. */
function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Not empty.
  }
}
