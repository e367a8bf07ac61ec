import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { type Account, canChange, changeOwner, copyScripts, ordinary, own, runAsAccount } from './accounts.ts';
import { createSceneForTest, type Scene, secret, takeSnapshot } from './scene.ts';
import { startSwapping } from './start-swapping.ts';

interface Result {
  readonly tries: number;
  readonly done: number;
  readonly leaks: number;
  readonly refusals: Readonly<Record<string, number>>;
}

/** The folder to be swapped, and outside the same names, so that whatever went astray would do its work there. */
function fillScene(scene: Scene): void {
  for (const [folder, content] of [
    [scene.inside('a/d'), 'inside'],
    [scene.outside(), `${secret} `.repeat(20)],
  ] as const) {
    mkdirSync(join(folder, 'sub'), { recursive: true });
    mkdirSync(join(folder, 'tree/deep'), { recursive: true });
    for (const name of ['f.txt', 'sub/f.txt', 'victim', 'prey']) writeFileSync(join(folder, name), content);
    symlinkSync(content.slice(0, 6), join(folder, 'link'));
  }
  writeFileSync(scene.outside('SECRET'), secret);
}

async function runRace(account: Account, ms: number, way = 'safe') {
  const scene = createSceneForTest();
  fillScene(scene);
  const { script, module } = copyScripts(scene);
  changeOwner(scene, account);
  const before = takeSnapshot(scene.outside());
  const swapper = await startSwapping(scene.inside('a'), { account, script: script('swapper.js') });
  const results = await runAsAccount(account, [script('racer.js'), module, scene.inside(), String(ms), way]);
  expect(swapper.isAtWork(), 'the swapper swapped to the end').toBe(true);
  await swapper.stop();
  return { results: results as Record<string, Result>, before, after: takeSnapshot(scene.outside()) };
}

function printResults(title: string, results: Record<string, Result>): void {
  const rows = Object.entries(results).map(
    ([name, { tries, done, leaks }]) => `  ${name.padEnd(12)} ${tries} tries, ${done} done, ${leaks} leaked`,
  );
  process.stdout.write(`\n${title}\n${rows.join('\n')}\n`);
}

/** Codes with a meaning for callers: no bare system errors, and none without a reason. */
const expected = new Set('PATH_VIOLATION FILE_NOT_FOUND NOT_A_DIRECTORY NOT_EMPTY EXISTS CHANGED'.split(' '));

const accounts = [
  ['as this account', own, counts(100, 60_000)],
  ...(canChange ? [['as an ordinary account', ordinary, counts(50, 60_000)] as const] : []),
] as const;

test.each(accounts)(
  'W3: %s, a folder swapped for a link out gives nothing away and lets nothing out',
  async (title, account, ms) => {
    const { results, before, after } = await runRace(account, ms);
    printResults(`SafeRoot, ${title}`, results);
    expect(after).toEqual(before);
    for (const [name, { done, leaks, refusals }] of Object.entries(results)) {
      expect(leaks, name).toBe(0);
      expect(done, name).toBeGreaterThanOrEqual(5);
      expect(
        Object.keys(refusals).filter((code) => !expected.has(code)),
        name,
      ).toEqual([]);
    }
  },
);

test('the same harness detects the leak of a check by realpath', async () => {
  const { results, before, after } = await runRace(own, 0, 'usual-way');
  printResults('realpath', results);
  expect(results['read']?.leaks).toBe(1);
  expect(results['create']?.leaks).toBe(1);
  expect(after).not.toEqual(before);
});
