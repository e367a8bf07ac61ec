import { execFile } from 'node:child_process';
import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AmbitError } from '../../errors.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { pickVariables } from '../common/base-environment.ts';
import { runtimeFiles } from '../common/server-files.ts';
import type { PackageCommand } from './package-command.ts';
import { type FetchHost, type PackageKind, programNotFound, type RunTool } from './package-kind.ts';
import {
  cacheFolder,
  type PackageSources,
  proxyFinder,
  readProxySettings,
  settingsFolder,
  urlHost,
} from './package-sources.ts';
import { assertNoEscape } from './package-store.ts';
import {
  maxLockBytes,
  readFileStart,
  readNamedFile,
  readPackageFile,
  readSettingsFile,
  refuseOffender,
  showWord,
} from './read-package-file.ts';

const requirementsFile = 'requirements.in';
const lockFile = 'requirements.txt';
const venv = 'venv';
/** A package that has to be built would run a script of its own during the fetch. */
const fixedFlags = ['--only-binary', ':all:', '--no-progress', '--quiet'];
const lockShape = ['--no-header', '--no-annotate'];
const maxHeadBytes = 8192;
const requirementPattern = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._\s-]*\])?==[0-9A-Za-z.+!-]+(?:\s*;[^@]*)?$/;
/** The program of an environment is a link to the Python of this machine. */
const ownPython = /^venv\/bin\/python[0-9.]*$/;

export const uvKind: PackageKind = {
  tool: 'uvx',
  fetcher: 'uv',
  installHint: 'Install uv, which includes uvx.',
  lockFiles: [requirementsFile, lockFile],
  programFolder: `${venv}/bin`,

  findSources: (host, wanted) => readUvSources(host, wanted),

  async resolve(wanted, folder, run) {
    writeRequirements(wanted, folder);
    await createVenv(folder, run);
    const shape = ['--generate-hashes', ...lockShape, ...pythonFlag(folder)];
    await run(['pip', 'compile', ...fixedFlags, ...shape, '-o', lockFile, requirementsFile], folder);
  },

  checkLock(folder) {
    const lines = readPackageFile(folder, lockFile, maxLockBytes)
      .replace(/\\\n/g, ' ')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'));
    const offender = lines.find((line) => !isPinned(line));
    if (offender !== undefined)
      refuseOffender(
        `"${showWord(offender.split('--hash')[0]?.trimEnd())}", which is not a wheel with a hash from an index`,
      );
  },

  async install(_, folder, run) {
    if (!existsSync(join(folder, venv))) await createVenv(folder, run);
    await run(
      ['pip', 'sync', ...fixedFlags, '--require-hashes', '--link-mode', 'copy', ...pythonFlag(folder), lockFile],
      folder,
    );
  },

  checkInstalled(folder, { env }) {
    const isOwnPython = (path: string) =>
      ownPython.test(path) && realpathSync.native(join(folder, path)) === env['UV_PYTHON'];
    return assertNoEscape(folder, isOwnPython);
  },

  readPin({ name }, folder) {
    const text = readPackageFile(folder, lockFile, maxLockBytes);
    const own = normalizeName(name.replace(/\[.*$/s, ''));
    const line = text.split('\n').find((each) => normalizeName(/^[A-Za-z0-9._-]+/.exec(each)?.[0] ?? '') === own);
    const version = /==([^\s;\\]+)/.exec(line ?? '')?.[1];
    if (version === undefined) throw new Error(`uv did not report the version of "${name}"`);
    return { name, version, integrity: `sha256-${sha256Hex(text)}` };
  },

  findStartCommand(wanted, folder) {
    const programs = join(folder, venv, 'bin');
    const file = join(programs, wanted.program ?? wanted.name);
    if (!existsSync(file)) {
      const own = readdirSync(programs).filter((name) => !/^(?:python|pip|activate|deactivate|pydoc)/.test(name));
      throw programNotFound(wanted, own);
    }
    return isPythonScript(file)
      ? { command: join(programs, 'python'), args: [file, ...wanted.args] }
      : { command: file, args: wanted.args };
  },

  // The Python that the environment was made with may be gone.
  isIntact: (folder) => existsSync(join(folder, venv, 'bin', 'python')),

  async installDirectly(wanted, { folder, cache, locks }, run) {
    const flags = ['--no-progress', '--quiet', `--cache-dir=${join(cache, 'uv')}`];
    const chosen = (locks === undefined ? undefined : findLockedPython(locks)) ?? wanted.runtime;
    const python = chosen === undefined ? [] : ['--python', chosen];
    await run(['venv', ...flags, '--no-project', ...python, join(folder, venv)], folder);
    const [asked, locked] = [join(folder, requirementsFile), join(folder, lockFile)];
    if (locks === undefined) {
      writeRequirements(wanted, folder);
      await run(['pip', 'compile', ...flags, ...lockShape, ...pythonFlag(folder), '-o', locked, asked], folder);
    }
    await run(['pip', 'sync', ...flags, '--link-mode', 'copy', ...pythonFlag(folder), locked], folder);
  },
};

/** Finds the Python that the lock files were made for: they need not fit another. */
function findLockedPython(locks: string): string | undefined {
  const contents = readdirSync(locks).filter((name) => name.startsWith('content-'));
  const pythons = contents.map((name) => join(locks, name, venv, 'bin', 'python'));
  const found = pythons.find((path) => existsSync(path));
  return found === undefined ? undefined : realpathSync.native(found);
}

function writeRequirements({ name, wanted }: PackageCommand, folder: string): void {
  const line = `${name}${wanted === '' ? '' : `==${wanted}`}\n`;
  writeFileSync(join(folder, requirementsFile), line, { flag: 'wx', mode: 0o600 });
}

/**
 * Whether the Python of the environment runs the file. Its path may be too long for a first line, or have a space. uv
 * then writes a script for the shell, which hides the interpreter.
 */
function isPythonScript(file: string): boolean {
  const [first = '', second = ''] = readFileStart(file, maxHeadBytes).toString('utf8').split('\n');
  return /^#!.*\/python[0-9.]*$/.test(first) || (first === '#!/bin/sh' && second.startsWith("'''exec' "));
}

/** Whether a line pins a version of an index with one hash or more. */
function isPinned(line: string): boolean {
  const [wanted = '', ...hashes] = line.split('--hash=sha256:');
  const isSetApart = [wanted, ...hashes.slice(0, -1)].every((part) => /\s$/.test(part));
  const areHashes = hashes.length > 0 && hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash.trimEnd()));
  return isSetApart && areHashes && requirementPattern.test(wanted.trimEnd());
}

const createVenv = (folder: string, run: RunTool): Promise<void> =>
  run(['venv', '--quiet', '--no-project', '--no-progress', venv], folder);

const pythonFlag = (folder: string): string[] => ['--python', join(folder, venv, 'bin', 'python')];

/** Normalises a name as Python does when it compares names. */
const normalizeName = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, '-');

interface UvIndex {
  readonly url: string;
  readonly name?: string | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
}

interface UvIndexes {
  readonly default: UvIndex;
  readonly further: readonly UvIndex[];
}

const publicIndex = { url: 'https://pypi.org/simple' };

/** Settings in a file of uv that name an index. */
const indexSetting =
  /^[ \t]*(?:\[\[?(?:pip\.)?index\]\]?|(?:pip\.)?(?:index|index-url|extra-index-url|default-index|find-links)\s*=)/m;

const pypi = 'pypi.org';
/** The host of the files of PyPI. */
const pypiFiles = new URL('https://files.pythonhosted.org/');
const passedNames = /^UV_(?:INDEX_STRATEGY|EXCLUDE_NEWER|HTTP_TIMEOUT|INSECURE_HOST|PRERELEASE)$/;

/** Reads the user's indexes of uv with their credentials, and finds the Python of this machine. */
async function readUvSources({ env, fetcher }: FetchHost, { runtime }: PackageCommand): Promise<PackageSources> {
  const indexes = readUvIndexes(env);
  const urls = [indexes.default, ...indexes.further].map(({ url }) => new URL(url));
  const files: Record<string, string | Buffer> = {};
  const python = await findPython(fetcher, env, runtime);
  const reached = urls.some(({ hostname }) => hostname === pypi) ? [...urls, pypiFiles] : urls;
  const certificates = env['SSL_CERT_FILE'];
  if (certificates !== undefined && certificates !== '') files['certificates.pem'] = readNamedFile(certificates);
  const netrc = readNetrcFor(env, new Set(urls.map(({ hostname }) => hostname)));
  if (netrc !== '') files['netrc'] = netrc;
  return {
    hosts: [...new Set(reached.map(urlHost))],
    files,
    secrets: [
      ...[indexes.default, ...indexes.further].map(({ password }) => password),
      ...urls.map(({ password }) => password),
    ].filter((each) => each !== undefined && each !== '') as string[],
    proxyFor: proxyFinder(reached, readProxySettings(env)),
    readable: runtimeFiles(python, []).mounts.map(({ source }) => source),
    env: {
      ...Object.fromEntries(Object.entries(env).filter((each): each is [string, string] => passedNames.test(each[0]))),
      ...indexEnvironment(indexes),
      ...(files['certificates.pem'] === undefined ? {} : { SSL_CERT_FILE: `${settingsFolder}/certificates.pem` }),
      ...(netrc === '' ? {} : { NETRC: `${settingsFolder}/netrc` }),
      UV_PYTHON: python,
      UV_PYTHON_DOWNLOADS: 'never',
      UV_NO_CONFIG: '1',
      UV_CACHE_DIR: cacheFolder,
      UV_LINK_MODE: 'copy',
    },
  };
}

function indexEnvironment({ default: first, further }: UvIndexes): Record<string, string> {
  const logins = [first, ...further].flatMap(({ name, user, password }) => {
    const known = name?.toUpperCase().replace(/[^A-Z0-9]/g, '_');
    return known === undefined
      ? []
      : [
          ...(user === undefined ? [] : [[`UV_INDEX_${known}_USERNAME`, user]]),
          ...(password === undefined ? [] : [[`UV_INDEX_${known}_PASSWORD`, password]]),
        ];
  });
  const format = ({ name, url }: UvIndex) => (name === undefined ? url : `${name}=${url}`);
  return {
    UV_DEFAULT_INDEX: format(first),
    ...(further.length === 0 ? {} : { UV_INDEX: further.map(format).join(' ') }),
    ...Object.fromEntries(logins),
  };
}

/** Asks uv outside of the sandbox, when nothing of a package is there yet. No Python is downloaded for a fetch. */
async function findPython(uv: string, host: NodeJS.ProcessEnv, version: string | undefined): Promise<string> {
  const names = [
    ...['PATH', 'HOME', 'XDG_DATA_HOME', 'XDG_CACHE_HOME', 'PYENV_ROOT', 'PYENV_VERSION'],
    ...['UV_PYTHON', 'UV_PYTHON_INSTALL_DIR', 'UV_PYTHON_PREFERENCE'],
  ];
  const env = pickVariables(host, names);
  const asked = ['python', 'find', '--no-project', '--no-config', '--no-python-downloads'];
  try {
    const args = version === undefined ? asked : [...asked, version];
    const { stdout } = await promisify(execFile)(uv, args, { env, cwd: '/', timeout: 30_000 });
    return realpathSync.native(stdout.trim());
  } catch (error) {
    throw new AmbitError('UPSTREAM_FAILED', {
      what: `There is no Python${version === undefined ? '' : ` ${version}`} on this machine for uvx.`,
      hint: `Install it, for example with: uv python install${version === undefined ? '' : ` ${version}`}`,
      cause: error,
    });
  }
}

/** Reads the entries of the user's netrc file for these hosts. */
function readNetrcFor(env: NodeJS.ProcessEnv, hosts: ReadonlySet<string>): string {
  const path = env['NETRC'] ?? join(env['HOME'] ?? '/', '.netrc');
  const entries = readSettingsFile(path).split(/(?=\bmachine\s)/);
  return entries.filter((entry) => hosts.has(/^machine\s+(\S+)/.exec(entry)?.[1] ?? '')).join('');
}

/** Reads the indexes of the user's uv from the environment. A file that sets others is refused, not ignored. */
export function readUvIndexes(env: NodeJS.ProcessEnv): UvIndexes {
  const named = (name: string) => env[name] || undefined;
  const first = named('UV_DEFAULT_INDEX') ?? named('UV_INDEX_URL');
  if (first === undefined) refuseIndexFiles(env);
  const further = `${named('UV_INDEX') ?? ''} ${named('UV_EXTRA_INDEX_URL') ?? ''}`.split(/\s+/);
  return {
    default: first === undefined ? publicIndex : readIndex(first, env),
    further: further.filter((each) => each !== '').map((each) => readIndex(each, env)),
  };
}

/** `name=url`, or the URL alone. */
function readIndex(text: string, env: NodeJS.ProcessEnv): UvIndex {
  const [, name, url = ''] = /^(?:([A-Za-z0-9_.-]+)=)?(.*)$/s.exec(text) ?? [];
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw indexRefused('an index of uv is not a registry URL', 'Set UV_DEFAULT_INDEX to a URL with https.');
  }
  const known = name?.toUpperCase().replace(/[^A-Z0-9]/g, '_');
  return { url, name, user: env[`UV_INDEX_${known}_USERNAME`], password: env[`UV_INDEX_${known}_PASSWORD`] };
}

/** Refuses a file that names an index: otherwise packages would come from the public index instead. */
function refuseIndexFiles(env: NodeJS.ProcessEnv): void {
  const config = env['XDG_CONFIG_HOME'] ?? join(env['HOME'] ?? '/', '.config');
  const files = [env['UV_CONFIG_FILE'], join(config, 'uv/uv.toml'), '/etc/uv/uv.toml'];
  for (const file of files) {
    if (file === undefined || !indexSetting.test(readSettingsFile(file))) continue;
    throw indexRefused('a configuration file of uv sets the index', 'Set UV_DEFAULT_INDEX for Ambit as well.');
  }
}

function indexRefused(why: string, hint: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `Packages for uvx cannot be downloaded: ${why}.`, hint });
}
