import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const folder = import.meta.dirname;
const pollMs = 200;

/** The folder of the servers of other makers, with their packages in place. */
export async function installServers(): Promise<string> {
  const lock = join(tmpdir(), `ambit-test-cells-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`);
  while (!isInstalled()) {
    if (!claim(lock)) {
      await pause(pollMs);
      continue;
    }
    try {
      if (!isInstalled()) install();
    } finally {
      rmdirSync(lock);
    }
  }
  return folder;
}

export function versionOf(name: string): string {
  const lock = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string }>;
  };
  const entry = lock.packages[`node_modules/${name}`];
  if (entry === undefined) throw new Error(`${name} is not in the lockfile`);
  return entry.version;
}

// npm writes this file last, so that a half-made install is not taken for a whole one.
function isInstalled(): boolean {
  return existsSync(join(folder, 'node_modules', '.package-lock.json'));
}

function claim(lock: string): boolean {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}

function install(): void {
  process.stderr.write('test/journeys/cells/servers: running npm ci --ignore-scripts (once)\n');
  const { status, error } = spawnSync(
    'npm',
    ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'],
    {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  if (status !== 0) throw new Error(`npm ci failed in test/journeys/cells/servers (${error?.message ?? status})`);
}
