import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PackageKind } from './package-kind.ts';
import { npmProgram } from './package-programs.ts';

const manifest = 'package.json';
const lock = 'package-lock.json';

/**
 * The registry and how to reach it are as the user's npm has them; whatever else would run something, or put it elsewhere, is said
 * here. Without a program for git, a dependency that is a repository is not fetched.
 */
const always = (folder: string): string[] => [
  '--ignore-scripts',
  `--prefix=${folder}`,
  '--location=project',
  '--git=false',
  '--global=false',
  '--dry-run=false',
  '--package-lock=true',
  '--package-lock-only=false',
  '--omit=dev',
  '--include=optional',
  '--install-strategy=hoisted',
  '--install-links=true',
  '--workspaces=false',
  '--audit=false',
  '--fund=false',
  '--update-notifier=false',
  '--progress=false',
  '--loglevel=error',
];

export const npmKind: PackageKind = {
  tool: 'npx',
  fetcher: 'npm',
  missing: 'Install Node with npm, which brings npx.',
  lockFiles: [manifest, lock],

  async fetch({ name, wanted }, folder, run) {
    writeFileSync(join(folder, manifest), '{"private":true}\n', { flag: 'wx', mode: 0o600 });
    await run(
      ['install', ...always(folder), '--save-exact', '--save-prod', '--', `${name}@${wanted || 'latest'}`],
      folder,
    );
  },

  restore: (_, folder, run) => run(['ci', ...always(folder)], folder),

  pinned({ name }, folder) {
    const { packages } = JSON.parse(readFileSync(join(folder, lock), 'utf8')) as {
      packages: Record<string, { readonly version?: string; readonly integrity?: string } | undefined>;
    };
    const { version, integrity } = packages[`node_modules/${name}`] ?? {};
    if (version === undefined || integrity === undefined) throw new Error(`npm did not say what "${name}" is`);
    return { name, version, integrity };
  },

  program: npmProgram,
};
