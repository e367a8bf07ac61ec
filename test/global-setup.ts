import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describeMissingPrograms, installMissingPrograms } from './needs/program.ts';
import { seed } from './random-seed.ts';

const project = resolve(import.meta.dirname, '..');

/** Runs once, before the first test file. */
export function setup(): void {
  buildIfChanged();
  installMissingPrograms();
  process.env['AMBIT_TEST_RUNTIMES'] = mkdtempSync(join(tmpdir(), 'ambit-runtimes-'));
  console.log(`Random seed of this run: ${seed} (AMBIT_TEST_SEED=${seed} repeats it)`);
}

/** Runs once, after the last test file. */
export function teardown(): void {
  for (const line of describeMissingPrograms()) console.warn(line);
  rmSync(process.env['AMBIT_TEST_RUNTIMES'] as string, { recursive: true, force: true });
}

/** Many tests start the built program, so an old build would be tested in place of the source. */
function buildIfChanged(): void {
  if (spawnSync(process.execPath, ['scripts/check-build.js'], { cwd: project }).status === 0) return;
  console.log('The source has changed since the last build: building.');
  execFileSync('npm', ['run', 'build'], { cwd: project, stdio: 'inherit' });
}
