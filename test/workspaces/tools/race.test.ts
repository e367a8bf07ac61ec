import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { findRipgrep } from '../../../src/workspaces/search/ripgrep.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts, proof } from '../../proof.ts';
import { createSceneForTest, secret } from '../saferoot/scene.ts';
import { startSwapping } from '../saferoot/start-swapping.ts';
import { createSandboxedRipgrep, openFiles } from '../search/open-files.ts';
import { createSearchTools, textOf } from './search-files.ts';

const run = promisify(execFile);
const ripgrep = createSandboxedRipgrep();
// The races of all tools together, in the journeys, run for a minute each.
const ms = counts(50, 15_000);

/** A folder `a/d` that is swapped for a link, and what must not be seen where the link leads. */
async function swapWhile(target: string) {
  const scene = createSceneForTest();
  for (const [folder, content] of [
    [scene.inside('a/d'), 'inside'],
    [scene.inside('closed'), `${secret} inside `.repeat(20)],
    [scene.outside(), `${secret} inside `.repeat(20)],
  ] as const) {
    mkdirSync(join(folder, 'sub'), { recursive: true });
    for (const name of ['f.txt', 'sub/f.txt', 'passwd']) writeFileSync(join(folder, name), content);
  }
  for (const folder of [scene.outside(), scene.inside('closed')]) writeFileSync(join(folder, 'SECRET.txt'), 'inside');
  return { scene, swapper: await startSwapping(scene.inside('a'), { target }) };
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
    const { scene, swapper } = await swapWhile(target);
    const { call } = createSearchTools(openFiles(scene.inside(), quick, { hide: ['closed'] }));
    const path = tool === 'grep_search' ? undefined : 'a';
    const began = Date.now();
    let done = 0;
    while (swapper.isAtWork() && (Date.now() - began < ms || done < 5)) {
      const said = textOf(await call(tool, { ...args, ...(path === undefined ? {} : { path }) }));
      expect(said).not.toMatch(/SECRET|:x:|hostname|ld\.so/);
      if (/inside|f\.txt/.test(said)) done++;
    }
    expect(swapper.isAtWork(), 'the swapper swapped to the end').toBe(true);
    if (quick !== undefined) expect(quick.answers.names).toBeGreaterThan(0);
  },
);

test('the same harness catches ripgrep on the host', async () => {
  const { scene, swapper } = await swapWhile('../../outside');
  const program = (await findRipgrep(process.env['PATH'])) as string;
  let leaked = false;
  while (swapper.isAtWork() && !leaked) {
    // It leaves with 1 or 2 when it has found nothing, or has met a file that was gone.
    const { stdout } = await run(program, ['SECRET', scene.inside('a')]).catch((error: { stdout: string }) => error);
    leaked = stdout.includes(secret);
  }
  expect(leaked).toBe(true);
});
