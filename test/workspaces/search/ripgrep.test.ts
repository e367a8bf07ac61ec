import { existsSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openRoot } from '../../../src/workspaces/saferoot/open-root.ts';
import { parseExpression } from '../../../src/workspaces/search/expression.ts';
import { grepFiles } from '../../../src/workspaces/search/grep.ts';
import { createRipgrep, findRipgrep, type RipgrepOptions } from '../../../src/workspaces/search/ripgrep.ts';
import { hasBwrap, pathWithoutBwrap } from '../../needs/bwrap.ts';
import { createSandboxHarness, processesIn, type SandboxHarness } from '../../sandbox/bwrap/sandbox-harness.ts';
import { textOf } from '../../sandbox/tagged-processes.ts';
import { makeFolder } from './make-folder.ts';
import { openFiles } from './open-files.ts';

let harness: SandboxHarness;
beforeAll(async () => {
  harness = await createSandboxHarness();
});
afterAll(() => harness.stop());

const query = { rust: 'needle', path: '.', glob: undefined, signal: undefined, readRules: async () => [] };

/** ripgrep, or in its place a shell that does what a broken one might. */
function createFakeRipgrep(does: string | undefined, options: Partial<RipgrepOptions> = {}) {
  const script = join(makeFolder({}), 'rg');
  if (does !== undefined) writeFileSync(script, `#!/bin/sh\n${does}\n`, { mode: 0o755 });
  return createRipgrep({
    sandboxes: [harness.runner],
    tmpRoot: harness.root,
    limitMs: 60_000,
    ...(does === undefined ? {} : { find: async () => script }),
    ...options,
  });
}

async function listLeftovers(folder: string): Promise<unknown> {
  await harness.reaper.settled();
  return { processes: processesIn(folder), folders: readdirSync(harness.root).filter((name) => /^search/.test(name)) };
}
const nothing = { processes: [], folders: [] };

describe.skipIf(!hasBwrap())('ripgrep in its sandbox', () => {
  test('finds the files to read, and leaves nothing behind', async () => {
    const folder = makeFolder({ 'a/b': 'needle', c: 'hay' });
    const root = openRoot(folder);
    expect(await createFakeRipgrep(undefined).candidates(root.descriptor as number, query)).toEqual(['a/b']);
    root.close();
    expect(await listLeftovers(folder)).toEqual(nothing);
  });

  test('searches the folder that was opened, even if its path leads elsewhere', async () => {
    const folder = makeFolder({ 'ws/mine': 'needle' });
    const root = openRoot(join(folder, 'ws'));
    renameSync(join(folder, 'ws'), join(folder, 'moved'));
    mkdirSync(join(folder, 'ws'));
    writeFileSync(join(folder, 'ws/other'), 'needle');
    const found = createFakeRipgrep(undefined).candidates(root.descriptor as number, query);
    // From here on the number may be somebody else's.
    root.close();
    expect(await found).toEqual(['mine']);
  });

  test('is killed after its time limit, and the files are read instead', async () => {
    const folder = makeFolder({ a: 'needle' });
    const ripgrep = createFakeRipgrep('exec sleep 1000', { limitMs: 300 });
    const files = openFiles(folder, ripgrep);
    const found = await grepFiles(files, { ...wanted, path: '.' });
    expect(found.files.map(({ path }) => path)).toEqual(['a']);
    expect(await listLeftovers(folder)).toEqual(nothing);
  });

  test('an aborted search leaves no process', async () => {
    const folder = makeFolder({ a: 'needle' });
    const abort = new AbortController();
    const files = openFiles(folder, createFakeRipgrep('exec sleep 1000'));
    const searched = grepFiles(files, { ...wanted, path: '.' }, undefined, abort.signal);
    const over = expect(searched).rejects.toThrow();
    while (!processesIn(folder).some((pid) => readCommand(pid).startsWith('sleep'))) await delay(10);
    for (const pid of processesIn(folder)) expect(readCommand(pid)).not.toContain('needle');
    abort.abort();
    await over;
    expect(await listLeftovers(folder)).toEqual(nothing);
  });

  test('its output is ignored when it is too large, has errors or ends early', async () => {
    const folder = makeFolder({ a: 'needle' });
    const root = openRoot(folder);
    const outcomes = [];
    for (const does of [
      'exec yes /workspace/a',
      'echo no >&2; exit 2',
      'kill -9 $$',
      "printf '/workspace/a\\0'; exit 3",
    ]) {
      outcomes.push(await createFakeRipgrep(does).candidates(root.descriptor as number, query));
    }
    root.close();
    expect(outcomes).toEqual([undefined, undefined, undefined, undefined]);
    expect(await listLeftovers(folder)).toEqual(nothing);
  });

  test('it can neither write nor read outside, and names in its output cannot lead out', async () => {
    const folder = makeFolder({ 'ws/a': 'needle', outside: 'x' });
    const root = openRoot(join(folder, 'ws'));
    const does = `touch /workspace/made 2>/dev/null; [ -e ${folder}/outside ] && printf '/workspace/seen\\0'
      printf '/etc/passwd\\0/workspacex\\0/workspace/a\\0'`;
    expect(await createFakeRipgrep(does).candidates(root.descriptor as number, query)).toEqual(['a']);
    root.close();
    expect(existsSync(join(folder, 'ws/made'))).toBe(false);
  });

  test('invented names are read like any other, within limits', async () => {
    const folder = makeFolder({ 'ws/a': 'needle', 'ws/.env': 'needle', outside: 'needle', 'ws/.git/x': 'needle' });
    const made = ['../outside', '.env', 'a/../../outside', '.git/x', 'a', 'gone'];
    const does = made.map((name) => `printf '/workspace/${name}\\0'`).join('\n');
    const files = openFiles(join(folder, 'ws'), createFakeRipgrep(does));
    const found = await grepFiles(files, { ...wanted, path: '.' });
    expect(found.files.map(({ path }) => path)).toEqual(['a']);
  });
});

const wanted = { expression: parseExpression('needle', true), glob: undefined, contextLines: 0, limit: 10 };

test('without a sandbox or without ripgrep, the files are read', async () => {
  const folder = makeFolder({ a: 'needle' });
  const { tmpRoot, without } = { tmpRoot: harness.root, without: await createSandboxHarness(() => pathWithoutBwrap) };
  for (const ripgrep of [
    createRipgrep({ sandboxes: [], tmpRoot }),
    createRipgrep({ sandboxes: [without.runner], tmpRoot: without.root }),
    createRipgrep({ sandboxes: [harness.runner], tmpRoot, find: async () => undefined }),
  ]) {
    expect((await grepFiles(openFiles(folder, ripgrep), { ...wanted, path: '.' })).files).toHaveLength(1);
  }
  await without.stop();
});

test('the program of the package is used, else the one on PATH', async () => {
  expect(await findRipgrep(undefined)).toMatch(/ripgrep-.*\/bin\/rg$/);
});

function readCommand(pid: number): string {
  return textOf(`/proc/${pid}/cmdline`).replaceAll('\0', ' ');
}
