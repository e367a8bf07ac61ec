import { mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SafeRoot } from '../../../src/workspaces/saferoot/open-root.ts';
import { counts } from '../../proof.ts';
import {
  countDescriptors,
  expectNoMoreDescriptors,
  makeScene,
  type Scene,
  secret,
  settleOutcome,
  takeSnapshot,
} from './scene.ts';

/** Few names, so that generated links and paths meet. */
const segment = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('a', 'b', 'c', 'f') },
  { weight: 3, arbitrary: fc.constantFrom('..', '.', '') },
  { weight: 2, arbitrary: fc.constantFrom('outside', 'ws', 'ws-evil', 'f.txt') },
);
const path = fc.array(segment, { minLength: 1, maxLength: 7 }).map((segments) => segments.join('/'));
const anyPath = fc.oneof({ weight: 8, arbitrary: path }, { weight: 1, arbitrary: fc.string({ unit: 'binary' }) });
const name = fc
  .array(fc.constantFrom('a', 'b', 'c', 'f'), { minLength: 1, maxLength: 3 })
  .map((names) => names.join('/'));
const tree = fc.array(
  fc.oneof(
    fc.record({ kind: fc.constant('file' as const), name }),
    fc.record({ kind: fc.constant('folder' as const), name }),
    fc.record({ kind: fc.constant('link' as const), name, target: path }),
    fc.record({ kind: fc.constant('absolute' as const), name, target: path }),
  ),
  { maxLength: 10 },
);
type Tree = typeof tree extends fc.Arbitrary<infer T> ? T : never;

function plantTree(scene: Scene, growth: Tree): void {
  for (const item of growth) {
    const target = scene.inside(item.name);
    try {
      // A branch below a planted link would grow outside, so it is left out.
      mkdirSync(dirname(target), { recursive: true });
      if (!`${realpathSync(dirname(target))}/`.startsWith(`${scene.inside()}/`)) continue;
      if (item.kind === 'file') writeFileSync(target, 'inside', { flag: 'wx' });
      else if (item.kind === 'folder') mkdirSync(target);
      else symlinkSync(item.kind === 'link' ? item.target : `${scene.base}/${item.target}`, target);
    } catch {
      // Taken already, or not possible there.
    }
  }
}

const works: readonly ((root: SafeRoot, one: string, other: string) => Promise<unknown>)[] = [
  (root, one) => root.create(one, 'planted', { parents: true }),
  (root, one) => root.replace(one, 'planted', { parents: true, create: true }),
  (root, one) => root.mkdir(one, { parents: true }),
  (root, one, other) => root.rename(one, other, { parents: true }),
  (root, one, other) => root.rename(one, other, { overwrite: true }),
  (root, one) => root.remove(one),
  (root, one) => root.removeTree(one),
];

const runs = counts(60, 10_000);

test('W3: for any tree and any path, nothing outside is read', async () => {
  let agreed = 0;
  await fc.assert(
    fc.asyncProperty(tree, fc.array(anyPath, { minLength: 1, maxLength: 12 }), async (growth, paths) => {
      const scene = makeScene();
      try {
        plantTree(scene, growth);
        const root = scene.open();
        const before = countDescriptors();
        for (const asked of paths) {
          const outcome = await settleOutcome(root.read(asked));
          if (Buffer.isBuffer(outcome)) expect(outcome.toString()).not.toContain(secret);
          if (agreesWithKernel(scene, asked, outcome)) agreed++;
          expect(JSON.stringify(await settleOutcome(root.list(asked)))).not.toContain('f.txt');
        }
        await expectNoMoreDescriptors(before);
      } finally {
        scene.remove();
      }
    }),
    { numRuns: runs },
  );
  expect(agreed).toBeGreaterThan(runs);
});

/** Tells whether SafeRoot answers, if it does, as the kernel does with the same path. */
function agreesWithKernel(scene: Scene, asked: string, outcome: unknown): boolean {
  if (Buffer.isBuffer(outcome)) {
    const target = scene.inside().concat('/', asked);
    expect(`${realpathSync(target)}/`.startsWith(`${scene.inside()}/`)).toBe(true);
    expect(outcome.toString()).toBe(readFileSync(target, 'utf8'));
    return true;
  }
  const kernel = { FILE_NOT_FOUND: 'ENOENT', NOT_A_DIRECTORY: 'ENOTDIR', IS_A_DIRECTORY: 'EISDIR' }[outcome as string];
  if (kernel === undefined) return false;
  expect(() => readFileSync(scene.inside().concat('/', asked))).toThrow(kernel);
  return true;
}

test('W3: for any tree and any write, nothing outside changes', async () => {
  let done = 0;
  const step = fc.record({ work: fc.constantFrom(...works), one: anyPath, other: anyPath });
  await fc.assert(
    fc.asyncProperty(tree, fc.array(step, { minLength: 1, maxLength: 12 }), async (growth, steps) => {
      const scene = makeScene();
      try {
        plantTree(scene, growth);
        const root = scene.open();
        const outside = () => [scene.outside(), `${scene.base}/ws-evil`].map(takeSnapshot);
        const [before, descriptors] = [outside(), countDescriptors()];
        for (const { work, one, other } of steps) {
          if (typeof (await settleOutcome(work(root, one, other))) !== 'string') done++;
        }
        expect(outside()).toEqual(before);
        await expectNoMoreDescriptors(descriptors);
      } finally {
        scene.remove();
      }
    }),
    { numRuns: runs },
  );
  expect(done).toBeGreaterThan(runs);
});
