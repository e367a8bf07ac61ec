import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('../..', import.meta.url));
const sources = ['runners', 'saferoot', 'workspaces'].map((room) => join(project, 'src', room));
const built = join(project, 'dist/runners/warden-process.js');
const lock = join(project, 'node_modules/.building-runners');

function isFresh(): boolean {
  if (!existsSync(built)) return false;
  const builtAt = statSync(built).mtimeMs;
  return sources.every((source) =>
    readdirSync(source, { recursive: true, encoding: 'utf8' }).every(
      (name) => statSync(join(source, name)).mtimeMs <= builtAt,
    ),
  );
}

/** The warden and what keeps files in containers are programs of their own and run from dist, so dist has to be what the source says. */
export async function ensureBuilt(): Promise<void> {
  while (!isFresh() || existsSync(lock)) {
    try {
      mkdirSync(lock);
    } catch {
      // Another test file is building; a lock older than a minute was left behind.
      if (existsSync(lock) && Date.now() - statSync(lock).mtimeMs > 60_000) rmdirSync(lock);
      await delay(100);
      continue;
    }
    try {
      execFileSync(join(project, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], { cwd: project });
      execFileSync(process.execPath, ['scripts/bundle.js'], { cwd: project });
    } catch {
      // Errors elsewhere do not keep this room from being written.
    } finally {
      rmdirSync(lock);
    }
    if (!isFresh()) throw new Error('dist/runners could not be built.');
  }
}
