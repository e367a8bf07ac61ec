import { closeSync, constants, fstatSync, lstatSync, openSync, realpathSync } from 'node:fs';
import { SafeRootError } from '../saferoot-error.ts';
import { type Handle, type PlatformFs, pathAt } from './platform-fs.ts';

/** Flags of the `/.resolve/<flags>/` prefix: no link anywhere, no `..`, no devices, no named forks; one name only. */
const NOFOLLOW_ANY = 0x01;
const NODOTDOT = 0x02;
const NODEVFS = 0x08;
const UNIQUE = 0x20;
const NOXATTRS = 0x40;

/**
 * Uses a path prefix, since macOS has no handle that can be part of a path. The prefix forbids following any link in
 * the rest of the path, so a path whose components were checked is as good as a handle. Older kernels do not know the
 * prefix and find nothing there: then the self-test fails, and the folder is refused.
 */
export function createMacosFs(strict: boolean): PlatformFs {
  const flags = NOFOLLOW_ANY | NODOTDOT | NODEVFS | NOXATTRS | (strict ? UNIQUE : 0);
  const statPath = (path: string): Handle => ({ path, stats: lstatSync(path), descriptor: undefined });
  return {
    platform: 'macos',
    openRoot: (path) => statPath(`/.resolve/${flags}${realpathSync.native(path)}`),
    step(from, name) {
      if (name.toString().toLowerCase() === '..namedfork') throw new SafeRootError('PATH_VIOLATION');
      return statPath(pathAt(from, name).toString());
    },
    reopenToRead(file) {
      // The file may have been exchanged: a pipe must not block, and another file must not be opened.
      const descriptor = openSync(file.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      const stats = fstatSync(descriptor);
      if (stats.isFile() && stats.ino === file.stats.ino && stats.dev === file.stats.dev) return descriptor;
      closeSync(descriptor);
      throw new SafeRootError('CHANGED');
    },
    isSameMount: (one, other) => one.stats.dev === other.stats.dev,
    release() {},
    releaseRemoved() {},
  };
}
