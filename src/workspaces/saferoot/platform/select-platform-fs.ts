import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SafeRootError } from '../saferoot-error.ts';
import { walkPath } from '../walk-path.ts';
import { createLinuxFs } from './linux-fs.ts';
import { type Handle, type PlatformFs, pathAt } from './platform-fs.ts';

/** Platforms that passed the self-test in this process. Failures are not kept, so the next attempt tests again. */
const tested = new Set<string>();

/** Returns the file system calls of this platform, after a self-test on first use. */
export function selectPlatformFs(platform: NodeJS.Platform, strict: boolean): PlatformFs {
  const create = { linux: createLinuxFs, darwin: createMacosFs }[platform as string];
  if (create === undefined)
    throw new SafeRootError('UNSUPPORTED', { what: 'cannot be opened safely on this platform' });
  const key = `${platform}:${strict}`;
  if (!tested.has(key)) {
    testPlatformFs(create(strict));
    tested.add(key);
  }
  return create(strict);
}

/**
 * Tests a platform in a folder of its own before anything is entrusted to it: files inside must be found and every path
 * out refused. There is no weaker fallback, so a failure is an error.
 */
export function testPlatformFs(fs: PlatformFs): void {
  let reason: string | undefined;
  try {
    const folder = mkdtempSync(join(tmpdir(), 'ambit-saferoot-'));
    try {
      reason = findFailure(fs, folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  } catch (error) {
    reason = `trying it failed with ${(error as NodeJS.ErrnoException).code ?? 'an error'}`;
  }
  if (reason !== undefined) {
    throw new SafeRootError('UNSUPPORTED', { what: `cannot be opened safely on this machine: ${reason}` });
  }
}

function findFailure(fs: PlatformFs, folder: string): string | undefined {
  mkdirSync(join(folder, 'inside', 'folder'), { recursive: true });
  mkdirSync(join(folder, 'outside'));
  writeFileSync(join(folder, 'inside', 'folder', 'file'), 'inside');
  writeFileSync(join(folder, 'outside', 'file'), 'outside!');
  symlinkSync('../outside', join(folder, 'inside', 'out'));
  symlinkSync(join(folder, 'outside'), join(folder, 'inside', 'absolute'));
  symlinkSync('folder', join(folder, 'inside', 'in'));

  const root = fs.openRoot(join(folder, 'inside'));
  const readSize = (path: string): number | string | undefined => {
    try {
      const end = walkPath(fs, root, path);
      end.release();
      return end.node?.stats.size;
    } catch (error) {
      return error instanceof SafeRootError ? error.code : (error as NodeJS.ErrnoException).code;
    }
  };
  try {
    // The system itself must not follow links.
    const link = fs.step(root, 'out');
    fs.release(link);
    if (!link.stats.isSymbolicLink()) return 'links are followed unasked';
    if (readSize('folder/file') !== 6 || readSize('in/file') !== 6) return 'files inside are not found';
    for (const path of ['out/file', 'absolute/file', '../outside/file', 'folder/../../outside/file']) {
      if (readSize(path) !== 'PATH_VIOLATION') return 'a way out is not refused';
    }
    return undefined;
  } finally {
    fs.release(root);
  }
}

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
function createMacosFs(strict: boolean): PlatformFs {
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
