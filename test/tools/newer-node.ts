import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TOOLS = dirname(fileURLToPath(import.meta.url));
const NEEDED_MAJOR = 22;
const POLL_MS = 200;

/** The path of a Node that is new enough for the conformance runner: this one if it is, else the pinned one. */
export function newerNode(): string {
  if (Number.parseInt(process.versions.node, 10) >= NEEDED_MAJOR) return process.execPath;
  return installed(join('node_modules', `node-${process.platform}-${process.arch}`, 'bin', 'node'));
}

/** For `NODE_COMPILE_CACHE`: the tools load the same few megabytes of script in every run. */
export const compileCache = join(TOOLS, 'node_modules', '.cache', 'compiled');

/** The Inspector's entry; run it with `--cli` as its first argument. */
export function inspectorCli(): string {
  return installed(
    join('node_modules', '@modelcontextprotocol', 'inspector', 'clients', 'launcher', 'build', 'index.js'),
  );
}

function installed(relative: string): string {
  if (!isInstalled()) {
    withLock(() => {
      if (!isInstalled()) install();
    });
  }
  const path = join(TOOLS, relative);
  if (!existsSync(path)) throw new Error(`test/tools/${relative} is not there: nothing is pinned for this platform`);
  return path;
}

// npm writes this file last, so that a half-made install is not taken for a whole one.
function isInstalled(): boolean {
  return existsSync(join(TOOLS, 'node_modules', '.package-lock.json'));
}

function install(): void {
  process.stderr.write('test/tools: running npm ci --ignore-scripts (once)\n');
  const { status, error } = spawnSync(
    'npm',
    ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'],
    {
      cwd: TOOLS,
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  );
  if (status !== 0) throw new Error(`npm ci failed in test/tools (${error?.message ?? `exit ${status}`})`);
}

// The lock lives outside the tree: npm ci empties node_modules, and nothing else there may be left behind.
function withLock(work: () => void): void {
  const name = createHash('sha256').update(TOOLS).digest('hex').slice(0, 16);
  const lock = join(tmpdir(), `ambit-test-tools-${name}.lock`);
  while (!claim(lock)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS);
  try {
    work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function claim(lock: string): boolean {
  try {
    const file = openSync(lock, 'wx');
    writeSync(file, String(process.pid));
    closeSync(file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (ownerIsGone(lock)) rmSync(lock, { force: true });
    return false;
  }
}

function ownerIsGone(lock: string): boolean {
  try {
    const owner = Number(readFileSync(lock, 'utf8'));
    // Zero: the owner has made the file but not yet signed it.
    if (owner > 0) process.kill(owner, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
