import { SafeRootError } from '../saferoot-error.ts';
import type { Ground } from './ground.ts';
import { linuxGround } from './linux-ground.ts';
import { macosGround } from './macos-ground.ts';
import { proveGround } from './self-test.ts';

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
