import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkNpmLock } from './check-npm-lock.ts';
import { checkTree } from './check-tree.ts';
import { type NpmSources, npmSources } from './npm-sources.ts';
import type { PackageKind } from './package-kind.ts';
import { npmProgram } from './package-programs.ts';
import { lockBytes, readFetched } from './read-fetched.ts';

const manifest = 'package.json';
const lock = 'package-lock.json';
/** What npm says is there after it has installed. */
const installed = 'node_modules/.package-lock.json';

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
  '--lockfile-version=3',
  '--omit-lockfile-registry-resolved=false',
  '--omit=dev',
  '--include=optional',
  '--install-strategy=hoisted',
  '--install-links=false',
  '--workspaces=false',
  '--audit=false',
  '--fund=false',
  '--update-notifier=false',
  '--progress=false',
  '--loglevel=error',
];

export const npmKind: PackageKind<NpmSources> = {
  tool: 'npx',
  fetcher: 'npm',
  missing: 'Install Node with npm, which brings npx.',
  lockFiles: [manifest, lock],

  findSources: ({ env, fetcher }) => npmSources(env, fetcher),

  async resolve({ name, wanted }, folder, run) {
    writeFileSync(join(folder, manifest), '{"private":true}\n', { flag: 'wx', mode: 0o600 });
    const asked = `${name}@${wanted || 'latest'}`;
    await run(
      ['install', ...always(folder), '--package-lock-only=true', '--save-exact', '--save-prod', '--', asked],
      folder,
    );
  },

  checkLock: (folder, sources) => checkNpmLock(readFetched(folder, lock, lockBytes), sources),

  install: (_, folder, run) => run(['ci', ...always(folder), '--package-lock-only=false'], folder),

  async checkInstalled(folder, sources) {
    await checkTree(folder);
    // A package can bring a lock file of its own, which npm heeds only once it has unpacked it.
    checkNpmLock(readFetched(folder, installed, lockBytes), sources);
  },

  pinned({ name }, folder) {
    const { packages } = JSON.parse(readFetched(folder, lock, lockBytes)) as {
      packages: Record<string, { readonly version?: string; readonly integrity?: string } | undefined>;
    };
    const { version, integrity } = packages[`node_modules/${name}`] ?? {};
    if (version === undefined || integrity === undefined) throw new Error(`npm did not say what "${name}" is`);
    return { name, version, integrity };
  },

  program: npmProgram,
};
