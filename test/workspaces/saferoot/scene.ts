import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { openRoot, type SafeRoot, type SafeRootOptions } from '../../../src/workspaces/saferoot/open-root.ts';

export const secret = 'SECRET of the host';

/** A folder to be confined to, and beside it what must stay out of reach. */
export interface Scene {
  readonly base: string;
  /** Paths inside and outside, by the ordinary way. */
  inside(path?: string): string;
  outside(path?: string): string;
  open(options?: SafeRootOptions): SafeRoot;
  remove(): void;
}

export function makeScene(): Scene {
  const base = mkdtempSync(join(tmpdir(), 'ambit-scene-'));
  chmodSync(base, 0o755);
  const inside = (path = '') => join(base, 'ws', path);
  const outside = (path = '') => join(base, 'outside', path);
  mkdirSync(inside());
  mkdirSync(outside('folder'), { recursive: true });
  // A neighbour whose name begins like the folder's own: a prefix is not a boundary.
  mkdirSync(join(base, 'ws-evil'));
  for (const file of [outside('f.txt'), outside('folder/f.txt'), join(base, 'ws-evil/f.txt')])
    writeFileSync(file, secret);
  const roots: SafeRoot[] = [];
  return {
    base,
    inside,
    outside,
    open(options) {
      const root = openRoot(inside(), options);
      roots.push(root);
      return root;
    },
    remove() {
      for (const root of roots) root.close();
      rmSync(base, { recursive: true, force: true });
    },
  };
}

export function createSceneForTest(): Scene {
  const scene = makeScene();
  onTestFinished(() => scene.remove());
  return scene;
}

/** Everything that could tell of a change under a path: names, contents, modes, times, link counts. */
export function takeSnapshot(path: string): unknown {
  const stats = lstatSync(path);
  const facts = [stats.ino, stats.mode, stats.nlink, stats.uid, stats.size, stats.mtimeMs];
  if (stats.isSymbolicLink()) return [facts, readlinkSync(path)];
  if (stats.isFile()) return [facts, readFileSync(path, 'utf8')];
  if (!stats.isDirectory()) return facts;
  return [
    facts,
    readdirSync(path)
      .sort()
      .map((name) => [name, takeSnapshot(join(path, name))]),
  ];
}

/** The paths of everything below a folder. Node's own recursive listing would follow links out of it. */
export function listNamesBelow(folder: string, prefix = ''): string[] {
  const entries = readdirSync(join(folder, prefix), { withFileTypes: true });
  return entries
    .flatMap((entry) => {
      const path = `${prefix}${entry.name}`;
      return entry.isDirectory() ? [path, ...listNamesBelow(folder, `${path}/`)] : [path];
    })
    .sort();
}

export function makeFifo(path: string): void {
  execFileSync('mkfifo', [path]);
}

/** The code of the refusal, or what came back if there was none. */
export async function settleOutcome(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: { code?: unknown }) => error.code ?? error);
}

export function countDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** That of a file which is gone is closed by another thread, a moment later. */
export async function expectNoMoreDescriptors(than: number): Promise<void> {
  await expect.poll(countDescriptors, { interval: 1, timeout: 50_000 }).toBeLessThanOrEqual(than);
}
