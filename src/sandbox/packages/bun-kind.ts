import { join } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { findProgramOnPath } from '../common/find-program.ts';
import { type FetchHost, findNpmProgram, npmManifestFile, type PackageKind, writeNpmManifest } from './package-kind.ts';
import { cacheFolder, type NpmSources, readNpmSources, settingsFolder, urlHost } from './package-sources.ts';
import { assertNoEscape } from './package-store.ts';
import {
  isRegistrySpec,
  maxLockBytes,
  readPackageFile,
  readSettingsFile,
  refuseOffender,
  showWord,
  versionPattern,
} from './read-package-file.ts';

const hashPattern = /^sha(?:1|256|384|512)-[A-Za-z0-9+/]+={0,2}$/;
const dependencyGroups = ['dependencies', 'optionalDependencies', 'peerDependencies'] as const;

const lockFile = 'bun.lock';
const treeFlags = ['--no-progress', '--no-summary', '--backend=copyfile', '--linker=hoisted'];
const fixedFlags = ['--ignore-scripts', ...treeFlags];

export const bunKind: PackageKind<NpmSources> = {
  tool: 'bunx',
  fetcher: 'bun',
  installHint: 'Install Bun, or write it as npx -y PACKAGE.',
  lockFiles: [npmManifestFile, lockFile],
  programFolder: 'node_modules/.bin',

  findSources(host) {
    refuseBunfig(host.env);
    const { BUN_CONFIG_REGISTRY: registry } = host.env;
    const env = registry === undefined ? host.env : { ...host.env, npm_config_registry: registry };
    const sources = readNpmSources(env, findProgramOnPath('npm', env['PATH']) ?? host.fetcher);
    return {
      ...sources,
      // Bun takes a tarball from the URL in the registry.
      replacedHost: 'never',
      files: { ...sources.files, '.npmrc': sources.files['npmrc'] ?? '' },
      env: {
        ...sources.env,
        HOME: settingsFolder,
        BUN_INSTALL: `${cacheFolder}/bun`,
        BUN_INSTALL_CACHE_DIR: `${cacheFolder}/packages`,
        DO_NOT_TRACK: '1',
      },
    };
  },

  async resolve({ name, wanted }, folder, run) {
    writeNpmManifest(folder);
    await run(['add', ...fixedFlags, '--lockfile-only', '--exact', `${name}@${wanted || 'latest'}`], folder);
  },

  checkLock: (folder, sources) => checkBunLock(readPackageFile(folder, lockFile, maxLockBytes), sources),

  install: (_, folder, run) => run(['install', ...fixedFlags, '--frozen-lockfile', '--production'], folder),

  checkInstalled: (folder) => assertNoEscape(folder),

  readPin({ name }, folder) {
    const text = readPackageFile(folder, lockFile, maxLockBytes);
    const line = text.split('\n').find((each) => each.trimStart().startsWith(`"${name}": ["${name}@`)) ?? '';
    const version = line.slice(line.indexOf(`["${name}@`) + `["${name}@`.length).split('"')[0];
    const integrity = /"(sha\d+-[A-Za-z0-9+/=]+)"\],?\s*$/.exec(line)?.[1];
    if (!version || integrity === undefined) throw new Error(`bun did not report the version of "${name}"`);
    return { name, version, integrity };
  },

  findStartCommand: findNpmProgram,

  async installDirectly({ name, wanted }, { folder, cache, locks }, run) {
    const flags = [...treeFlags, `--cwd=${folder}`, `--cache-dir=${join(cache, 'bun')}`];
    if (locks !== undefined) return run(['install', ...flags, '--frozen-lockfile', '--production'], folder);
    writeNpmManifest(folder);
    await run(['add', ...flags, '--exact', `${name}@${wanted || 'latest'}`], folder);
  },
};

/** Refuses a file that names a registry: otherwise packages would come from the public registry instead. */
function refuseBunfig(env: FetchHost['env']): void {
  if (env['BUN_CONFIG_REGISTRY'] !== undefined) return;
  const folders = [env['XDG_CONFIG_HOME'], env['HOME']].filter((folder) => folder !== undefined);
  const files = folders.map((folder) => join(folder, '.bunfig.toml'));
  if (!files.some((file) => /^[ \t]*(?:registry\b|\[install\.scopes|scopes\b)/m.test(readSettingsFile(file)))) return;
  throw new AmbitError('UPSTREAM_FAILED', {
    what: 'Packages for bunx cannot be downloaded: .bunfig.toml sets a registry, which Ambit does not read.',
    hint: 'Set the registry in ~/.npmrc, which npm and Bun both read, or write the server as npx -y PACKAGE.',
  });
}

/** Throws, with the name of the offender, unless each package in the lock file is a registry tarball with its hash. */
export function checkBunLock(text: string, { hosts }: Pick<NpmSources, 'hosts'>): void {
  const { packages } = JSON.parse(dropTrailingCommas(text)) as { packages?: Record<string, unknown> };
  for (const [name, entry] of Object.entries(packages ?? {})) {
    const [ident, from, info, integrity] = Array.isArray(entry) ? (entry as unknown[]) : [];
    const found = typeof ident === 'string' ? ident.slice(ident.lastIndexOf('@') + 1) : '';
    if (!versionPattern.test(found) || typeof from !== 'string' || typeof info !== 'object' || info === null) {
      refuseOffender(`"${showWord(name)}", which is "${showWord(ident)}" and not in a registry`);
    }
    if (from !== '' && !(URL.canParse(from) && hosts.includes(urlHost(new URL(from))))) {
      refuseOffender(`"${showWord(name)}", which comes from ${showWord(from)} and not from ${hosts.join(', ')}`);
    }
    if (typeof integrity !== 'string' || !hashPattern.test(integrity)) {
      refuseOffender(`"${showWord(name)}", for which the registry has no hash`);
    }
    checkDependencies(name, info as Record<string, unknown>);
  }
}

function checkDependencies(name: string, info: Readonly<Record<string, unknown>>): void {
  const optional = new Set([info['optionalPeers']].flat());
  for (const group of dependencyGroups) {
    for (const [wanted, spec] of Object.entries((info[group] ?? {}) as object)) {
      if (isRegistrySpec(spec) || (group === 'peerDependencies' && optional.has(wanted))) continue;
      refuseOffender(`"${showWord(wanted)}", which "${showWord(name)}" requires as "${showWord(spec)}"`);
    }
  }
}

/** Bun writes trailing commas, which JSON does not allow. */
function dropTrailingCommas(text: string): string {
  return text.replace(/("(?:\\.|[^"\\])*"?)|,(?=\s*[\]}])/gs, (_, quoted?: string) => quoted ?? '');
}
