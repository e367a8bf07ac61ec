import { execFile } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { AmbitError } from '../../errors.ts';
import { pickVariables } from '../common/base-environment.ts';
import { runtimeFiles } from '../common/server-files.ts';
import type { PackageCommand } from './package-command.ts';
import type { FetchHost } from './package-kind.ts';
import {
  cacheFolder,
  type PackageSources,
  proxyFinder,
  readProxySettings,
  settingsFolder,
  urlHost,
} from './package-sources.ts';
import { readNamedFile } from './read-package-file.ts';

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
export async function readUvSources({ env, fetcher }: FetchHost, { runtime }: PackageCommand): Promise<PackageSources> {
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
  if (!existsSync(path)) return '';
  const entries = readFileSync(path, 'utf8').split(/(?=\bmachine\s)/);
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
    if (file === undefined || !existsSync(file) || !indexSetting.test(readFileSync(file, 'utf8'))) continue;
    throw indexRefused('a configuration file of uv sets the index', 'Set UV_DEFAULT_INDEX for Ambit as well.');
  }
}

function indexRefused(why: string, hint: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `Packages for uvx cannot be downloaded: ${why}.`, hint });
}
