import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { findExposureAbove } from '../../lib/fs/private-files.ts';

// Unix sockets hold at most 108 bytes of path on Linux, 104 on macOS, the closing zero included.
const maxPathBytes = 100;
const hasHandlePaths = process.platform === 'linux';

/**
 * Returns the path of the control socket: in the data directory or, if that path is too long, in a folder named by a
 * hash in the user's runtime folder. Without a runtime folder the long path is used through a handle, or the temporary
 * folder.
 */
export function controlSocketPath(dataDir: string, env: NodeJS.ProcessEnv): string {
  const usual = join(dataDir, 'control.sock');
  const fits = Buffer.byteLength(usual) <= maxPathBytes || (hasHandlePaths && !env.XDG_RUNTIME_DIR);
  if (fits) return usual;
  const hash = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  const uid = process.getuid?.() ?? 0;
  // A single folder cannot be replaced by others in a shared temporary directory, because that is sticky.
  return join(env.XDG_RUNTIME_DIR || tmpdir(), `ambit-${uid}-${hash}`, 'control.sock');
}

/** The path of the lock socket of a data directory; undefined if the system allows no path that long. */
export function lockSocketPath(dataDir: string): string | undefined {
  const usual = join(dataDir, 'control.sock');
  return hasHandlePaths || Buffer.byteLength(usual) <= maxPathBytes ? usual : undefined;
}

/** A path to a socket through a folder that is held open. */
export interface SocketHandle {
  /** A short path. It leads to the checked folder even if another folder takes its name. */
  readonly path: string;
  /** Closes the folder. The path is invalid afterwards. */
  release(): void;
}

/** Opens the folder of a control socket. Refuses a folder in which somebody else could put a socket. */
export function openSocketHandle(socket: string): SocketHandle {
  const folder = dirname(socket);
  const exposed = findExposureAbove(folder);
  if (exposed !== undefined) throw notPrivateError(exposed);
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  const { uid, mode } = fstatSync(descriptor);
  if (uid !== (process.getuid?.() ?? uid) || (mode & 0o022) !== 0) {
    closeSync(descriptor);
    throw notPrivateError(`${folder} belongs to another user, or another user can write to it`);
  }
  const path = hasHandlePaths ? `/proc/self/fd/${descriptor}/${basename(socket)}` : socket;
  return { path, release: () => closeSync(descriptor) };
}

function notPrivateError(why: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `The control socket could belong to another user: ${why}.`,
    hint: 'Choose another data directory with --data-dir, or correct owner and mode with "chown" and "chmod go-w".',
  });
}
