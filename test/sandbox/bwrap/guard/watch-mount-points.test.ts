import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { findProtectedNames, type ProtectedName } from '../../../../src/sandbox/bwrap/guard/find-protected-names.ts';
import { watchNewNames } from '../../../../src/sandbox/bwrap/guard/watch-mount-points.ts';

function scene(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-names-')));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

test('S7: a large folder is listed rarely and not while others wait, and plain names are found at once', async () => {
  const path = scene();
  let clock = 0;
  const listings: ((found: ProtectedName[]) => void)[] = [];
  const list = () => new Promise<ProtectedName[]>((resolve) => void listings.push(resolve));
  const isFree = (names: readonly string[]) => names[0] === '.envrc';
  const watch = watchNewNames(
    { path, present: new Set(['.npmrc']), isWriteAllowed: isFree },
    { list, now: () => clock },
  );
  const ask = (at: number) => {
    clock = at;
    return [watch(), listings.length];
  };
  for (const name of ['.npmrc', '.envrc']) writeFileSync(join(path, name), '');
  expect(ask(0)).toEqual([undefined, 1]);
  // It takes a second; nobody begins another one meanwhile, nor soon after.
  expect(ask(500)).toEqual([undefined, 1]);
  clock = 1000;
  listings[0]?.([{ name: '.npmrc', ruleNames: ['.npmrc'] }]);
  await turn();
  expect(ask(1000)).toEqual([undefined, 1]);
  expect(ask(50_999)).toEqual([undefined, 1]);
  expect(ask(51_000)).toEqual([undefined, 2]);
  listings[1]?.([{ name: 'x.code-workspace', ruleNames: ['x.code-workspace'] }]);
  await turn();
  expect(ask(51_500)).toEqual(['x.code-workspace', 2]);

  const other = watchNewNames(
    { path, present: new Set(['.npmrc']), isWriteAllowed: isFree },
    { list, now: () => clock },
  );
  mkdirSync(join(path, '.github'));
  writeFileSync(join(path, '.github/copilot-instructions.md'), '');
  expect(other()).toBe('.github/copilot-instructions.md');
});

test('S4: patterns, other spellings, and repositories in folders and at the top are found by a listing', async () => {
  const path = scene();
  for (const folder of ['a/.git', 'b/objects', 'b/refs', 'plain']) mkdirSync(join(path, folder), { recursive: true });
  for (const file of ['b/HEAD', 'x.code-workspace', '.NPMRC', 'plain/.npmrc']) writeFileSync(join(path, file), '');
  const names = (await findProtectedNames(path)).map(({ name }) => name).sort();
  expect(names).toEqual(['.NPMRC', 'a/.git', 'b/HEAD', 'x.code-workspace']);
  expect(await findProtectedNames(join(path, 'missing'))).toEqual([]);
});
