import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openRoot } from '../../../src/workspaces/saferoot/open-root.ts';
import { readExpression } from '../../../src/workspaces/search/expression.ts';
import { grep } from '../../../src/workspaces/search/grep.ts';
import { createRipgrep, findRipgrep, type RipgrepOptions } from '../../../src/workspaces/search/ripgrep.ts';
import { hasBwrap, pathWithoutBwrap } from '../../needs/bwrap.ts';
import { createSandboxHarness, processesIn, type SandboxHarness } from '../../sandbox/bwrap/sandbox-harness.ts';
import { folderWith } from './make-folder.ts';
import { filesIn } from './open-files.ts';

let harness: SandboxHarness;
beforeAll(async () => {
  harness = await createSandboxHarness();
});
afterAll(() => harness.stop());

const query = { rust: 'needle', path: '.', glob: undefined, signal: undefined, readRules: async () => [] };

/** ripgrep, or in its place a shell that does what a broken one might. */
function ripgrepThat(does: string | undefined, options: Partial<RipgrepOptions> = {}) {
  const script = join(folderWith({}), 'rg');
  if (does !== undefined) writeFileSync(script, `#!/bin/sh\n${does}\n`);
  if (does !== undefined) chmodSync(script, 0o755);
  return createRipgrep({
    sandboxes: [harness.runner],
    tmpRoot: harness.root,
    limitMs: 60_000,
    ...(does === undefined ? {} : { find: async () => script }),
    ...options,
  });
}

async function leftBehind(folder: string): Promise<unknown> {
  await harness.warden.settled();
  return { processes: processesIn(folder), folders: readdirSync(harness.root).filter((name) => /^search/.test(name)) };
}
const nothing = { processes: [], folders: [] };

describe.skipIf(!hasBwrap())('ripgrep in its sandbox', () => {
  test('tells which files to read, and leaves nothing behind', async () => {
    const folder = folderWith({ 'a/b': 'needle', c: 'hay' });
    const root = openRoot(folder);
    expect(await ripgrepThat(undefined).candidates(root.descriptor as number, query)).toEqual(['a/b']);
    root.close();
    expect(await leftBehind(folder)).toEqual(nothing);
  });

  test('looks into the very folder that was opened, whatever has its name by now', async () => {
    const folder = folderWith({ 'ws/mine': 'needle' });
    const root = openRoot(join(folder, 'ws'));
    renameSync(join(folder, 'ws'), join(folder, 'moved'));
    mkdirSync(join(folder, 'ws'));
    writeFileSync(join(folder, 'ws/other'), 'needle');
    const told = ripgrepThat(undefined).candidates(root.descriptor as number, query);
    // From here on the number may be somebody else's.
    root.close();
    expect(await told).toEqual(['mine']);
  });

  test('one that does not end is ended, and the files are read instead', async () => {
    const folder = folderWith({ a: 'needle' });
    const ripgrep = ripgrepThat('exec sleep 1000', { limitMs: 300 });
    const files = filesIn(folder, ripgrep);
    const found = await grep(files, { ...wanted, path: '.' });
    expect(found.files.map(({ path }) => path)).toEqual(['a']);
    expect(await leftBehind(folder)).toEqual(nothing);
  });

  test('a search that nobody waits for any more leaves no process', async () => {
    const folder = folderWith({ a: 'needle' });
    const abort = new AbortController();
    const files = filesIn(folder, ripgrepThat('exec sleep 1000'));
    const searched = grep(files, { ...wanted, path: '.' }, undefined, abort.signal);
    const over = expect(searched).rejects.toThrow();
    while (!processesIn(folder).some((pid) => commandOf(pid).startsWith('sleep'))) await delay(10);
    for (const pid of processesIn(folder)) expect(commandOf(pid)).not.toContain('needle');
    abort.abort();
    await over;
    expect(await leftBehind(folder)).toEqual(nothing);
  });

  test('one that says too much, complains or dies is not believed', async () => {
    const folder = folderWith({ a: 'needle' });
    const root = openRoot(folder);
    const outcomes = [];
    for (const does of [
      'exec yes /workspace/a',
      'echo no >&2; exit 2',
      'kill -9 $$',
      "printf '/workspace/a\\0'; exit 3",
    ]) {
      outcomes.push(await ripgrepThat(does).candidates(root.descriptor as number, query));
    }
    root.close();
    expect(outcomes).toEqual([undefined, undefined, undefined, undefined]);
    expect(await leftBehind(folder)).toEqual(nothing);
  });

  test('it can neither write there nor see more of the machine, and no name leads out of its answer', async () => {
    const folder = folderWith({ 'ws/a': 'needle', outside: 'x' });
    const root = openRoot(join(folder, 'ws'));
    const does = `touch /workspace/made 2>/dev/null; [ -e ${folder}/outside ] && printf '/workspace/seen\\0'
      printf '/etc/passwd\\0/workspacex\\0/workspace/a\\0'`;
    expect(await ripgrepThat(does).candidates(root.descriptor as number, query)).toEqual(['a']);
    root.close();
    expect(existsSync(join(folder, 'ws/made'))).toBe(false);
  });

  test('names that it makes up are read like any other: within bounds', async () => {
    const folder = folderWith({ 'ws/a': 'needle', 'ws/.env': 'needle', outside: 'needle', 'ws/.git/x': 'needle' });
    const made = ['../outside', '.env', 'a/../../outside', '.git/x', 'a', 'gone'];
    const does = made.map((name) => `printf '/workspace/${name}\\0'`).join('\n');
    const files = filesIn(join(folder, 'ws'), ripgrepThat(does));
    const found = await grep(files, { ...wanted, path: '.' });
    expect(found.files.map(({ path }) => path)).toEqual(['a']);
  });
});

const wanted = { expression: readExpression('needle', true), glob: undefined, contextLines: 0, limit: 10 };

test('without a sandbox or without ripgrep, the files are read', async () => {
  const folder = folderWith({ a: 'needle' });
  const { tmpRoot, without } = { tmpRoot: harness.root, without: await createSandboxHarness(() => pathWithoutBwrap) };
  for (const ripgrep of [
    createRipgrep({ sandboxes: [], tmpRoot }),
    createRipgrep({ sandboxes: [without.runner], tmpRoot: without.root }),
    createRipgrep({ sandboxes: [harness.runner], tmpRoot, find: async () => undefined }),
  ]) {
    expect((await grep(filesIn(folder, ripgrep), { ...wanted, path: '.' })).files).toHaveLength(1);
  }
  await without.stop();
});

test('the package brings the program, and PATH is the second choice', async () => {
  expect(await findRipgrep(undefined)).toMatch(/ripgrep-.*\/bin\/rg$/);
});

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
