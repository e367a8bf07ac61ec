import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { lookUp } from '../../src/runners/look-up.ts';

/**
 * Whether a program is there to test with. What is missing is installed where that can be done, and said; where it
 * cannot, the tests that need it are skipped, and with CI=true that fails.
 */
export function hasProgram(program: string, packages: readonly string[], what: string): boolean {
  const isThere = () => lookUp(program, process.env['PATH']) !== undefined;
  if (process.platform === 'linux' && !isThere()) install(program, packages);
  if (isThere()) return true;
  if (process.env['CI'] === 'true') throw new Error(`${program} is not on PATH and could not be installed.`);
  console.warn(`${program} is not on PATH: ${what} are skipped.`);
  return false;
}

function install(program: string, packages: readonly string[]): void {
  const may = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (!may || process.env['AMBIT_TEST_NO_INSTALL'] === '1') return;
  console.warn(`${program} is not on PATH: installing ${packages.join(' and ')} (AMBIT_TEST_NO_INSTALL=1 stops this).`);
  try {
    execFileSync('apt-get', ['install', '-y', '--no-install-recommends', ...packages], { stdio: 'ignore' });
  } catch {
    // Found or not is asked again.
  }
}
