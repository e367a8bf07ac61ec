import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { findRipgrep } from '../../../src/workspaces/search/find-ripgrep.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts, proof } from '../../proof.ts';
import { sceneOfTest, secret } from '../../saferoot/scene.ts';
import { filesIn, ripgrepOfFile } from '../../workspaces/search/searched.ts';
import { searching, textOf } from './searching.ts';

const ripgrep = ripgrepOfFile();
const ms = counts(150, 60_000);
/** Only a broken harness reaches this: nothing is judged by time. */
const patience = 20_000;

/** A folder `a/d` that is swapped for a link, and what must not be seen where the link leads. */
async function swapped(target: string) {
  const scene = sceneOfTest();
  for (const [folder, content] of [
    [scene.inside('a/d'), 'inside'],
    [scene.inside('closed'), `${secret} inside `.repeat(20)],
    [scene.outside(), `${secret} inside `.repeat(20)],
  ] as const) {
    mkdirSync(join(folder, 'sub'), { recursive: true });
    for (const name of ['f.txt', 'sub/f.txt', 'passwd']) writeFileSync(join(folder, name), content);
  }
  for (const folder of [scene.outside(), scene.inside('closed')]) writeFileSync(join(folder, 'SECRET.txt'), 'inside');
  const swapper = spawn(
    process.execPath,
    [join(import.meta.dirname, '../../saferoot/swapper.js'), scene.inside('a'), target],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  onTestFinished(() => void swapper.kill('SIGKILL'));
  await once(swapper.stdout, 'data');
  return { scene, swapper };
}

/** Outside (which the journey of all tools shows as well), in a folder that is closed to sessions, and in the sandbox of the search itself. */
const targets = proof ? ['../../outside', '../closed', '/etc'] : ['../closed', '/etc'];
const asked = [
  ['list_dir', { depth: 5 }, undefined],
  ['file_search', { pattern: '**/*' }, undefined],
  ['grep_search', { pattern: 'inside|SECRET|:x:' }, undefined],
  ...(hasBwrap() ? [['grep_search', { pattern: 'inside|SECRET|:x:' }, ripgrep] as const] : []),
] as const;
const cases = targets.flatMap((target) => asked.map((each) => [target, ...each] as const));

test.each(cases)(
  'W3: a folder swapped for a link to %s gives nothing away to %s %j',
  async (target, tool, args, quick) => {
    const { scene, swapper } = await swapped(target);
    const { call } = searching(filesIn(scene.inside(), quick, { hide: ['closed'] }));
    const path = tool === 'grep_search' ? undefined : 'a';
    const began = Date.now();
    let [tries, done] = [0, 0];
    for (; Date.now() - began < ms || (done < 5 && Date.now() - began < ms + patience); tries++) {
      const said = textOf(await call(tool, { ...args, ...(path === undefined ? {} : { path }) }));
      expect(said).not.toMatch(/SECRET|:x:|hostname|ld\.so/);
      if (/inside|f\.txt/.test(said)) done++;
    }
    expect(swapper.exitCode, 'the swapper swapped to the end').toBe(null);
    expect(done, `of ${tries} tries`).toBeGreaterThanOrEqual(5);
    if (quick !== undefined) expect(quick.told.names).toBeGreaterThan(0);
  },
);

test('the same harness catches ripgrep on the host', async () => {
  const { scene } = await swapped('../../outside');
  const program = (await findRipgrep(process.env['PATH'])) as string;
  const began = Date.now();
  let leaked = false;
  while (!leaked && Date.now() - began < patience) {
    leaked = spawnSync(program, ['SECRET', scene.inside('a')]).stdout.includes(secret);
  }
  expect(leaked).toBe(true);
});
