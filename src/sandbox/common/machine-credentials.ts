import { lstatSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join } from 'node:path';
import { findProgramOnPath } from './find-program.ts';

/** Files of settings or credentials below the prefix of a language or a package manager. */
const pathsBelowPrefix = [
  // npm's own folder.
  'npmrc',
  'etc/npmrc',
  'lib/node_modules/npm/npmrc',
  'share/nodejs/npm/npmrc',
  'etc/yarnrc',
  'etc/.yarnrc',
  'share/.yarnrc',
  'pip.conf',
  'etc/pip.conf',
  'etc/gitconfig',
  'etc/gemrc',
  'etc/netrc',
  'etc/.netrc',
  'cargo/config',
  'cargo/config.toml',
  'cargo/credentials',
  'cargo/credentials.toml',
];
/** Variables that name such a file. */
const fileVariables =
  /^(?:npm_config_(?:globalconfig|userconfig)|pip_config_file|netrc|git_config_(?:global|system))$/i;
/** Variables that name a folder with such files. */
const prefixVariables = /^(?:npm_config_prefix|prefix)$/i;

/**
 * Finds settings of the whole machine that may hold credentials, by their real paths. They lie in folders that
 * sandboxes see because of the programs there.
 */
export function findMachineCredentials(env: NodeJS.ProcessEnv = process.env): string[] {
  const readVariables = (names: RegExp) =>
    Object.entries(env).flatMap(([name, value]) => (value && isAbsolute(value) && names.test(name) ? [value] : []));
  const programs = [
    process.execPath,
    ...['node', 'npm', 'python3', 'git'].map((name) => findProgramOnPath(name, env['PATH'])),
  ];
  const prefixes = programs.flatMap((program) => (program === undefined ? [] : prefixesOf(program)));
  const all = ['/usr', '/usr/local', ...readVariables(prefixVariables), ...prefixes].flatMap((prefix) =>
    pathsBelowPrefix.map((path) => join(prefix, path)),
  );
  return [...new Set([...readVariables(fileVariables), ...all].flatMap(resolveFile))];
}

/** The prefixes of a program, by its name and by the target of its link: npm lies far below the prefix of its node. */
function prefixesOf(program: string): string[] {
  return [program, ...resolveFile(program)].map((path) => dirname(dirname(path)));
}

function resolveFile(path: string): string[] {
  try {
    const real = realpathSync.native(path);
    return lstatSync(real).isFile() ? [real] : [];
  } catch {
    return [];
  }
}
