import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { lookUp } from '../../src/runners/look-up.ts';

/**
 * Whether there is a bwrap to test with. What is missing is installed where that can be done, and said; where it cannot,
 * the tests that need it are skipped, and with CI=true that fails.
 */
export function hasBwrap(): boolean {
  if (process.platform === 'linux' && find() === undefined) install();
  if (find() !== undefined) return true;
  if (process.env['CI'] === 'true') throw new Error('bwrap is not on PATH and could not be installed.');
  console.warn('bwrap is not on PATH: the tests of the sandbox are skipped.');
  return false;
}

/** A PATH on which there is no sandbox to be found, nor anything else. */
export const pathWithoutBwrap = '/nonexistent';

function find(): string | undefined {
  return lookUp('bwrap', process.env['PATH']);
}

function install(): void {
  const may = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (!may || process.env['AMBIT_TEST_NO_INSTALL'] === '1') return;
  console.warn('bwrap is not on PATH: installing the package bubblewrap (AMBIT_TEST_NO_INSTALL=1 stops this).');
  try {
    execFileSync('apt-get', ['install', '-y', '--no-install-recommends', 'bubblewrap'], { stdio: 'ignore' });
  } catch {
    // Found or not is asked again.
  }
}
