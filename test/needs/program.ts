import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { findProgramOnPath } from '../../src/sandbox/common/find-program.ts';
import { proof } from '../proof.ts';

/** A program that some tests run and that npm does not bring. */
interface Need {
  /** The path of the program, if this machine has it. */
  find(): string | undefined;
  /** The Debian packages that bring it. */
  readonly packages: readonly string[];
  /** The tests that are skipped without it. */
  readonly tests: string;
}

const onPath = (name: string) => findProgramOnPath(name, process.env['PATH']);

/** The same Chromium without a window starts a tab with half the work. The proof runs the whole browser. */
const browsers = [
  ...(proof ? [] : ['chromium-headless-shell']),
  ...['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'],
];

const needs = {
  bwrap: { find: () => onPath('bwrap'), packages: ['bubblewrap'], tests: 'the tests of the sandbox' },
  podman: { find: () => onPath('podman'), packages: ['podman', 'runc'], tests: 'the tests of containers' },
  redis: {
    find: () => onPath('redis-server') ?? onPath('valkey-server'),
    packages: ['redis-server'],
    tests: 'the tests with Redis',
  },
  chromium: {
    find: () => browsers.map(onPath).find(Boolean),
    packages: ['chromium', 'chromium-headless-shell'],
    tests: 'the tests of the web console',
  },
  script: { find: () => onPath('script'), packages: ['bsdutils'], tests: 'the test of "ambit serve" on a terminal' },
  jq: { find: () => onPath('jq'), packages: ['jq'], tests: 'the lines of the docs that use jq' },
  python3: { find: () => onPath('python3'), packages: ['python3'], tests: 'the lines of the docs that use Python' },
  // Debian installs the library for its own Python, which may not be the first on PATH.
  'Python with PyJWT': {
    find: () =>
      [onPath('python3'), '/usr/bin/python3'].find((python) => python && canImport(python, 'jwt, cryptography')),
    packages: ['python3', 'python3-jwt', 'python3-cryptography'],
    tests: 'the test that verifies a token in Python',
  },
} satisfies Record<string, Need>;

export type NeedName = keyof typeof needs;

/**
 * The path of a program that a test needs. Without it the test is skipped; with CI=true that is an error, so that a run
 * cannot pass by skipping.
 */
export function findProgram(name: NeedName): string | undefined {
  const found = needs[name].find();
  if (found === undefined && process.env['CI'] === 'true')
    throw new Error(`${name} is missing: ${needs[name].tests} need it.`);
  return found;
}

/** Runs once, before the test files: two installations at a time would lock each other out. */
export function installMissingPrograms(): void {
  const missing = Object.entries(needs).filter(([, need]) => need.find() === undefined);
  const canInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (missing.length === 0 || !canInstall || process.env['AMBIT_TEST_NO_INSTALL'] === '1') return;
  const packages = missing.flatMap(([, need]) => need.packages);
  console.warn(`Installing ${packages.join(', ')} for the tests (AMBIT_TEST_NO_INSTALL=1 stops this).`);
  try {
    installPackages(packages);
  } catch {
    // The package lists of a new machine may be missing or old.
    try {
      runAptGet('update');
      installPackages(packages);
    } catch (error) {
      console.warn(`The installation failed: ${(error as Error).message}`);
    }
  }
}

/** One line for each missing program, with the tests that were skipped for it. */
export function describeMissingPrograms(): string[] {
  return Object.entries(needs)
    .filter(([, need]) => need.find() === undefined)
    .map(
      ([name, need]) => `${name} is missing: ${need.tests} were skipped. Debian packages: ${need.packages.join(' ')}`,
    );
}

function installPackages(packages: readonly string[]): void {
  runAptGet('install', '-y', '--no-install-recommends', ...packages);
}

function runAptGet(...args: string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  execFileSync('apt-get', ['-o', 'DPkg::Lock::Timeout=120', ...args], { stdio: 'ignore', env });
}

function canImport(python: string, modules: string): boolean {
  try {
    execFileSync(python, ['-c', `import ${modules}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
