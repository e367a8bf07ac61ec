import { createReadStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError } from '../saferoot/saferoot-error.ts';
import type { Planned } from './plan-merge.ts';
import type { Content } from './snapshot.ts';
import { unlessGone } from './walk-tree.ts';

type Undo = () => Promise<unknown>;

/** Something got in between; the path says where. Nothing of the merge has stayed. */
export class MergeInterrupted extends Error {
  readonly path: string;

  constructor(path: string, cause: unknown) {
    super(`${path}: ${cause instanceof SafeRootError ? cause.message : String(cause)}`, { cause });
    this.name = 'MergeInterrupted';
    this.path = path;
  }
}

/**
 * Puts what was planned into the workspace: all of it or, where a file is no longer what it was planned upon, nothing.
 * What is replaced is copied to `undo` before.
 */
export async function applyMerge(workspace: SafeRoot, plan: readonly Planned[], undo: string): Promise<void> {
  await mkdir(undo, { mode: 0o700 });
  const steps = plan.filter(({ outcome }) => outcome === 'taken' || outcome === 'merged');
  // What goes makes room for what comes.
  const ordered = [
    ...steps.filter(({ next }) => next === undefined),
    ...steps.filter(({ next }) => next !== undefined),
  ];
  const done: Undo[] = [];
  for (const [index, step] of ordered.entries()) {
    try {
      await applyOne(workspace, step, join(undo, String(index)), done);
    } catch (error) {
      for (const back of done.reverse()) await back().catch(() => {});
      throw new MergeInterrupted(step.path, error);
    }
  }
}

async function applyOne(workspace: SafeRoot, step: Planned, copy: string, done: Undo[]): Promise<void> {
  const { path, found, next, source } = step;
  if (found?.kind === 'file' && next?.kind === 'file') {
    const old = await held(workspace, path, found, copy);
    const changeMode = next.executable === found.executable ? old.mode : withRun(old.mode, next.executable);
    await workspace.replace(path, createReadStream(source as string), { version: found.version as string, changeMode });
    done.push(() => workspace.replace(path, createReadStream(copy), { changeMode: old.mode }));
    return;
  }
  if (found !== undefined) await takeAway(workspace, path, found, copy, done);
  if (next === undefined) return;
  if (next.kind === 'link') await workspace.symlink(path, next.target, { parents: true });
  else {
    const mode = next.executable ? 0o777 : 0o666;
    await workspace.create(path, createReadStream(source as string), { parents: true, mode });
  }
  done.push(async () => {
    await workspace.remove(path);
    await pruneAbove(workspace, path);
  });
}

async function takeAway(workspace: SafeRoot, path: string, found: Content, copy: string, done: Undo[]): Promise<void> {
  if (found.kind === 'file') {
    const { mode } = await held(workspace, path, found, copy);
    await workspace.remove(path);
    done.push(() => workspace.create(path, createReadStream(copy), { parents: true, mode }));
  } else {
    const target = await workspace.readlink(path, { absolute: true });
    if (target !== found.target) throw new SafeRootError('CHANGED', { path });
    await workspace.remove(path);
    done.push(() => workspace.symlink(path, target, { parents: true }));
  }
  await pruneAbove(workspace, path);
}

/** A copy of what is there, which must be what was found when the merge was planned. */
async function held(
  workspace: SafeRoot,
  path: string,
  found: Extract<Content, { kind: 'file' }>,
  copy: string,
): Promise<{ readonly mode: number }> {
  const file = await workspace.open(path);
  try {
    if (file.facts.version !== found.version) throw new SafeRootError('CHANGED', { path });
    await file.copyTo(copy);
    return { mode: file.facts.mode };
  } finally {
    await file.close();
  }
}

/** Folders that are empty now go too, as git has it. */
async function pruneAbove(workspace: SafeRoot, path: string): Promise<void> {
  for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder)) {
    const facts = await unlessGone(workspace.stat(folder, { link: true }));
    if (facts?.kind !== 'folder') return;
    try {
      await workspace.remove(folder);
    } catch {
      return;
    }
  }
}

/** Whoever may read it may run it, or nobody. */
function withRun(mode: number, executable: boolean): number {
  return executable ? mode | ((mode & 0o444) >> 2) : mode & ~0o111;
}
