import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLocal } from '../../src/workspaces/backends/local/open-local.ts';
import { createPathRules } from '../../src/workspaces/path-guard.ts';
import { isTemporaryName } from '../../src/workspaces/saferoot/write-file.ts';
import { proof } from '../proof.ts';
import { seed } from '../random-seed.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-killed-edits-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const startScript = (script: string, ...args: string[]) =>
  spawn(process.execPath, [join(import.meta.dirname, script), ...args], { stdio: ['ignore', 'pipe', 'inherit'] });

const listFiles = (place: string): string[] =>
  readdirSync(place, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(join(place, name)).isFile())
    .sort();

const isTemporary = (name: string) => isTemporaryName(basename(name));

/** The first line of a file is the digest of the rest. */
function isWhole(file: string): boolean {
  const [digest, body] = readFileSync(file, 'utf8').split('\n');
  return digest === createHash('sha256').update(String(body)).digest('hex');
}

/** Checks what a killed process left: every file is whole, and the next opening removes only the temporary files. */
async function checkAndSweep(place: string, when: unknown): Promise<{ files: string[]; temporary: string[] }> {
  const left = listFiles(place);
  const files = left.filter((name) => !isTemporary(name));
  expect({ when, broken: files.filter((name) => !isWhole(join(place, name))) }).toEqual({ when, broken: [] });
  const temporary = left.filter(isTemporary);
  const local = openLocal(place, { rules: createPathRules({ hide: [], keep: [], open: [] }) });
  expect({ when, swept: await local.swept }).toEqual({ when, swept: temporary.length });
  await local.close();
  expect({ when, files: listFiles(place) }).toEqual({ when, files });
  return { files, temporary };
}

interface Step {
  readonly edit: string;
  readonly step: string;
}

test('W6: a kill at any step of an edit leaves every file whole, and the next opening removes leftovers', async () => {
  const live = join(folder, 'live');
  mkdirSync(live);
  const child = startScript('edits-step-by-step.js', folder);
  const [, signal] = await once(child, 'exit');
  expect(signal).toBe('SIGKILL');

  const copies = readdirSync(folder).filter((name) => /^\d+$/.test(name));
  const seen: (Step & { files: string[]; temporary: string[] })[] = [];
  for (const copy of copies.sort()) {
    const step = JSON.parse(readFileSync(join(folder, `${copy}.json`), 'utf8')) as Step;
    seen.push({ ...step, ...(await checkAndSweep(join(folder, copy), step)) });
  }
  const during = (edit: string) => seen.filter((each) => each.edit === edit);
  // The file that an edit is about is there at each of its steps, under its old name or its new one.
  for (const edit of ['write over it', 'write over the large one', 'move a file over another']) {
    const path = edit === 'write over it' ? 'new/small' : 'new/large';
    expect(during(edit).filter(({ files }) => !files.includes(path))).toEqual([]);
  }
  expect(during('move a file').filter(({ files }) => !files.some((name) => basename(name) === 'small'))).toEqual([]);
  expect(during('move a folder').filter(({ files }) => !files.some((name) => basename(name) === 'large'))).toEqual([]);
  // These steps were reached, each with what it leaves behind.
  const reached = (edit: string, step: string, temporary: number) =>
    during(edit).some((each) => each.step === step && each.temporary.length === temporary);
  for (const edit of ['write a new file', 'write over it', 'write a large new file', 'write over the large one']) {
    expect({ edit, half: reached(edit, 'half a write', 1) }).toEqual({ edit, half: true });
  }
  expect(reached('write a new file', 'linkSync', 1)).toBe(true);
  expect(reached('write over it', 'renameSync', 0)).toBe(true);
  // The file system decides which of the two files comes first.
  const removals = during('remove a folder').map(({ step }) => step);
  expect(removals.sort()).toEqual(['rmdirSync', 'rmdirSync', 'unlinkSync', 'unlinkSync']);

  // The process itself was killed when half of its last file was written.
  const last = await checkAndSweep(live, 'killed');
  expect(last).toMatchObject({ files: [], temporary: [expect.any(String)] });
});

// Whether a kill at a random moment meets a write depends on the machine, so this is part of `npm run proof` only.
test.runIf(proof)('W6: kills at random moments leave every file whole too', async () => {
  const kills = 500;
  const delays = fc.sample(fc.double({ min: 0, max: 25, noNaN: true }), { seed, numRuns: kills });
  let leftOvers = 0;
  let whole = 0;
  for (const [round, ms] of delays.entries()) {
    const child = startScript('edits-until-killed.js', folder, String(round));
    await once(child.stdout, 'data');
    await delay(ms);
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
    const { files, temporary } = await checkAndSweep(folder, { seed, round });
    leftOvers += temporary.length;
    whole += files.length;
  }
  // Otherwise no process was killed in the middle of a write.
  expect(whole).toBeGreaterThan(0);
  expect(leftOvers).toBeGreaterThan(0);
});
