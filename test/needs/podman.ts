import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { lookUp } from '../../src/runners/look-up.ts';

/**
 * Whether there is a podman to test with. What is missing is installed where that can be done, and said; where it cannot,
 * the tests that need it are skipped, and with CI=true that fails.
 */
export function hasPodman(): boolean {
  if (process.platform === 'linux' && find() === undefined) install();
  if (find() !== undefined) return true;
  if (process.env['CI'] === 'true') throw new Error('podman is not on PATH and could not be installed.');
  console.warn('podman is not on PATH: the tests of containers are skipped.');
  return false;
}

function find(): string | undefined {
  return lookUp('podman', process.env['PATH']);
}

function install(): void {
  const may = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (!may || process.env['AMBIT_TEST_NO_INSTALL'] === '1') return;
  console.warn('podman is not on PATH: installing podman and runc (AMBIT_TEST_NO_INSTALL=1 stops this).');
  try {
    execFileSync('apt-get', ['install', '-y', '--no-install-recommends', 'podman', 'runc'], { stdio: 'ignore' });
  } catch {
    // Found or not is asked again.
  }
}
