import { join } from 'node:path';
import { findNpmProgram, npmManifestFile, type PackageKind, writeNpmManifest } from './package-kind.ts';
import { type NpmSources, readNpmSources, urlHost } from './package-sources.ts';
import { assertNoEscape } from './package-store.ts';
import {
  isRegistrySpec,
  maxLockBytes,
  readPackageFile,
  refuseOffender,
  showWord,
  versionPattern,
} from './read-package-file.ts';

/** The fields of a lock file that say where a package comes from. */
interface LockEntry {
  readonly version?: unknown;
  readonly resolved?: unknown;
  readonly integrity?: unknown;
  readonly link?: unknown;
  readonly inBundle?: unknown;
  readonly dependencies?: unknown;
  readonly optionalDependencies?: unknown;
  readonly peerDependencies?: unknown;
  readonly peerDependenciesMeta?: unknown;
}

type Registries = Pick<NpmSources, 'hosts' | 'replacedHost'>;

const packagePath = /^(?:node_modules\/(?:@[^/\\]+\/)?[^/\\]+\/)*node_modules\/((?:@[^/\\]+\/)?[^/\\]+)$/;
const hashPattern = /^(?:sha(?:1|256|384|512)-[A-Za-z0-9+/]+={0,2}(?:\?\S*)?(?:\s+|$))+$/;
const npmjsHost = 'registry.npmjs.org';

const isPackagePath = (path: string): boolean =>
  packagePath.test(path) && path.split('/').every((name) => !/^\.\.?$/.test(name));

const packageNameAt = (path: string): string => showWord(packagePath.exec(path)?.[1] ?? path);

const asRecord = (value: unknown): Record<string, unknown> => (isRecord(value) ? value : {});

const lockFile = 'package-lock.json';
/** npm's own list of what it has installed. */
const installedLockFile = 'node_modules/.package-lock.json';

/**
 * The registry and its access are the user's. These flags switch off everything that would run code or write elsewhere.
 * Without a program for git, a dependency that is a repository is not fetched.
 */
const fixedFlags = (folder: string): string[] => [
  '--ignore-scripts',
  '--git=false',
  '--install-links=false',
  '--omit-lockfile-registry-resolved=false',
  ...treeFlags(folder),
];

/** These flags keep everything in the folder, and write the lock file. */
const treeFlags = (folder: string): string[] => [
  `--prefix=${folder}`,
  '--location=project',
  '--global=false',
  '--dry-run=false',
  '--package-lock=true',
  '--lockfile-version=3',
  '--omit=dev',
  '--include=optional',
  '--install-strategy=hoisted',
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
  installHint: 'Install Node with npm, which includes npx.',
  lockFiles: [npmManifestFile, lockFile],
  programFolder: 'node_modules/.bin',

  findSources: ({ env, fetcher }) => readNpmSources(env, fetcher),

  async resolve({ name, wanted }, folder, run) {
    writeNpmManifest(folder);
    const asked = `${name}@${wanted || 'latest'}`;
    await run(
      ['install', ...fixedFlags(folder), '--package-lock-only=true', '--save-exact', '--save-prod', '--', asked],
      folder,
    );
  },

  checkLock: (folder, sources) => checkNpmLock(readPackageFile(folder, lockFile, maxLockBytes), sources),

  // Not "npm ci": it refuses a lock file without the optional packages for other systems, which a mirror may lack.
  install: (_, folder, run) => run(['install', ...fixedFlags(folder), '--package-lock-only=false'], folder),

  async checkInstalled(folder, sources) {
    await assertNoEscape(folder);
    // A package can bring a lock file of its own, which npm reads only once it has unpacked it.
    checkNpmLock(readPackageFile(folder, installedLockFile, maxLockBytes), sources);
  },

  readPin({ name }, folder) {
    const { packages } = JSON.parse(readPackageFile(folder, lockFile, maxLockBytes)) as {
      packages: Record<string, { readonly version?: string; readonly integrity?: string } | undefined>;
    };
    const { version, integrity } = packages[`node_modules/${name}`] ?? {};
    if (version === undefined || integrity === undefined)
      throw new Error(`npm did not report the version of "${name}"`);
    return { name, version, integrity };
  },

  findStartCommand: findNpmProgram,

  async installDirectly({ name, wanted }, { folder, cache, locks }, run) {
    const flags = [...treeFlags(folder), `--cache=${join(cache, 'npm')}`, '--logs-max=0', '--package-lock-only=false'];
    if (locks !== undefined) return run(['install', ...flags], folder);
    writeNpmManifest(folder);
    await run(['install', ...flags, '--save-exact', '--save-prod', '--', `${name}@${wanted || 'latest'}`], folder);
  },
};

/**
 * Throws, with the name of the offender, unless every package in the lock file is a tarball of a registry with its
 * hash, or lies inside such a tarball.
 */
export function checkNpmLock(text: string, registries: Registries): void {
  const { packages, lockfileVersion } = JSON.parse(text) as { packages?: unknown; lockfileVersion?: unknown };
  if (lockfileVersion !== 3 || !isRecord(packages)) throw new Error('npm wrote a lock file of another kind');
  const entries = new Map<string, LockEntry>();
  for (const [path, entry] of Object.entries(packages)) {
    if (path === '') continue;
    if (!isRecord(entry)) throw new Error('npm wrote a lock file that cannot be read');
    entries.set(path, entry);
  }
  for (const [path, entry] of entries) checkDependencies(path, entry, entries);
  for (const [path, entry] of entries) checkOrigin(path, entry, entries, registries);
}

/** Throws unless every dependency is in a registry, or inside the package's own tarball. */
function checkDependencies(path: string, entry: LockEntry, entries: ReadonlyMap<string, LockEntry>): void {
  const optionalPeers = asRecord(entry.peerDependenciesMeta);
  const isOptionalPeer = (name: string) => asRecord(optionalPeers[name])['optional'] === true;
  const peers = Object.entries(asRecord(entry.peerDependencies)).filter(([name]) => !isOptionalPeer(name));
  const asked = [
    ...Object.entries(asRecord(entry.dependencies)),
    ...Object.entries(asRecord(entry.optionalDependencies)),
    ...peers,
  ];
  for (const [name, spec] of asked) {
    if (isRegistrySpec(spec) || isBundled(findDependency(path, name, entries), entries)) continue;
    refuseOffender(`"${showWord(name)}", which "${packageNameAt(path)}" requires as "${showWord(spec)}"`);
  }
}

function checkOrigin(
  path: string,
  entry: LockEntry,
  entries: ReadonlyMap<string, LockEntry>,
  registries: Registries,
): void {
  const name = packageNameAt(path);
  if (!isPackagePath(path)) refuseOffender(`"${name}", which lies outside of its folder`);
  if (entry.link !== undefined && entry.link !== false) refuseOffender(`"${name}", which is a link to a folder`);
  if (isBundled(path, entries)) return;
  if (entry.resolved !== undefined && !isFromRegistry(entry.resolved, registries)) {
    const from = /^https?:/.test(String(entry.resolved)) ? showWord(entry.resolved) : 'somewhere else';
    refuseOffender(`"${name}", which comes from ${from} and not from ${registries.hosts.join(', ')}`);
  }
  if (typeof entry.version !== 'string' || !versionPattern.test(entry.version)) {
    refuseOffender(`"${name}", whose version is not in a registry`);
  }
  if (typeof entry.integrity !== 'string' || !hashPattern.test(entry.integrity)) {
    refuseOffender(`"${name}", for which the registry has no hash`);
  }
}

function isFromRegistry(resolved: unknown, { hosts, replacedHost }: Registries): boolean {
  if (typeof resolved !== 'string' || !URL.canParse(resolved)) return false;
  const url = new URL(resolved);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return false;
  // npm asks its own registry instead of these.
  const replaced = replacedHost === 'npmjs' ? npmjsHost : replacedHost;
  return hosts.includes(urlHost(url)) || (replaced !== 'never' && (replaced === 'always' || replaced === url.host));
}

/** Whether it lies inside the tarball of another package, which is checked itself. */
function isBundled(path: string | undefined, entries: ReadonlyMap<string, LockEntry>): boolean {
  const entry = path === undefined ? undefined : entries.get(path);
  if (path === undefined || entry?.inBundle !== true || entry.link || entry.resolved !== undefined) return false;
  const above = path.slice(0, path.lastIndexOf('/node_modules/'));
  const outer = path.includes('/node_modules/') ? entries.get(above) : undefined;
  return outer !== undefined && (outer.inBundle !== true || isBundled(above, entries));
}

/** Finds the path of a dependency in the way Node does. */
function findDependency(path: string, name: string, entries: ReadonlyMap<string, LockEntry>): string | undefined {
  for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const found = folder === '' ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (entries.has(found)) return found;
    if (folder === '') return undefined;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
