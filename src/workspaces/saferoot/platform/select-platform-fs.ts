import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SafeRootError } from '../saferoot-error.ts';
import { walk } from '../walk-path.ts';
import { linuxGround } from './linux-fs.ts';
import { macosGround } from './macos-fs.ts';
import type { Ground } from './platform-fs.ts';

/** What this process has proven already. Failures are not kept: the next attempt tries again. */
const proven = new Set<string>();

/** The ground of this platform, tried before it is first used. */
export function groundFor(platform: NodeJS.Platform, strict: boolean): Ground {
  const make = { linux: linuxGround, darwin: macosGround }[platform as string];
  if (make === undefined) throw new SafeRootError('UNSUPPORTED', { what: 'cannot be opened safely on this platform' });
  const key = `${platform}:${strict}`;
  if (!proven.has(key)) {
    proveGround(make(strict));
    proven.add(key);
  }
  return make(strict);
}

/**
 * Tries the ground in a folder of its own before anything is entrusted to it: what is inside must be found, every way
 * out refused. There is nothing weaker to fall back to, so a ground that does not hold is an error.
 */
export function proveGround(ground: Ground): void {
  let why: string | undefined;
  try {
    const place = mkdtempSync(join(tmpdir(), 'ambit-saferoot-'));
    try {
      why = failureIn(ground, place);
    } finally {
      rmSync(place, { recursive: true, force: true });
    }
  } catch (error) {
    why = `trying it failed with ${(error as NodeJS.ErrnoException).code ?? 'an error'}`;
  }
  if (why !== undefined) {
    throw new SafeRootError('UNSUPPORTED', { what: `cannot be opened safely on this machine: ${why}` });
  }
}

function failureIn(ground: Ground, place: string): string | undefined {
  mkdirSync(join(place, 'inside', 'folder'), { recursive: true });
  mkdirSync(join(place, 'outside'));
  writeFileSync(join(place, 'inside', 'folder', 'file'), 'inside');
  writeFileSync(join(place, 'outside', 'file'), 'outside!');
  symlinkSync('../outside', join(place, 'inside', 'out'));
  symlinkSync(join(place, 'outside'), join(place, 'inside', 'absolute'));
  symlinkSync('folder', join(place, 'inside', 'in'));

  const root = ground.root(join(place, 'inside'));
  const sizeOf = (path: string): number | string | undefined => {
    try {
      const end = walk(ground, root, path);
      end.release();
      return end.node?.stats.size;
    } catch (error) {
      return error instanceof SafeRootError ? error.code : (error as NodeJS.ErrnoException).code;
    }
  };
  try {
    // A system that followed a link by itself would not need the walk to do it.
    const link = ground.step(root, 'out');
    ground.release(link);
    if (!link.stats.isSymbolicLink()) return 'links are followed unasked';
    if (sizeOf('folder/file') !== 6 || sizeOf('in/file') !== 6) return 'files inside are not found';
    for (const way of ['out/file', 'absolute/file', '../outside/file', 'folder/../../outside/file']) {
      if (sizeOf(way) !== 'PATH_VIOLATION') return 'a way out is not refused';
    }
    return undefined;
  } finally {
    ground.release(root);
  }
}
