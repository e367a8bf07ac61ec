import { existsSync, realpathSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { findProgramOnPath } from '../common/find-program.ts';
import { readNamedFile, readSettingsFile } from './read-package-file.ts';

/** The proxies by which the user reaches the network. */
interface ProxySettings {
  readonly https?: string | undefined;
  readonly http?: string | undefined;
  /** Hosts that are reached without a proxy, separated by commas. */
  readonly except?: string | undefined;
}

const proxyNames = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY'];
/** The variables that name proxies. Their values may hold credentials, so only a fetch gets them. */
export const proxyVariables: readonly string[] = [...proxyNames, ...proxyNames.map((name) => name.toLowerCase())];

/** The sources of the packages of one fetch, with everything that is needed to reach them. */
export interface PackageSources {
  /** The registries, as `host:port`. Nothing else is reached. */
  readonly hosts: readonly string[];
  /** Small files for the tool that fetches, by name: settings, credentials, certificates. See `settingsFolder`. */
  readonly files: Readonly<Record<string, string | Buffer>>;
  readonly env: Readonly<Record<string, string>>;
  /** The user's proxy for one of the hosts; undefined for a direct connection. */
  readonly proxyFor: (host: string) => URL | undefined;
  /** Values that are removed from the output of a tool. */
  readonly secrets: readonly string[];
  /** Further files of this machine that the tool needs, as real paths. */
  readonly readable?: readonly string[];
}

/** A path in the sandbox of a fetch, outside of what is fetched. */
export const settingsFolder = '/run/fetch/settings';
/** The cache of the tool that fetches, removed after the fetch. */
export const cacheFolder = '/run/fetch/cache';

/** The host and port of the URL of a registry. */
export function urlHost(url: URL): string {
  return `${url.hostname}:${url.port === '' ? (url.protocol === 'http:' ? 80 : 443) : url.port}`;
}

/** Reads the proxies from the variables of the environment. */
export function readProxySettings(env: NodeJS.ProcessEnv): ProxySettings {
  const named = (name: string) => env[name.toLowerCase()] || env[name.toUpperCase()] || undefined;
  const any = named('all_proxy');
  return { https: named('https_proxy') ?? any, http: named('http_proxy') ?? any, except: named('no_proxy') };
}

/** Finds the proxy for each of these URLs by its host and port. Throws for a proxy of another protocol than HTTP. */
export function proxyFinder(urls: readonly URL[], settings: ProxySettings): (host: string) => URL | undefined {
  const found = new Map(urls.map((url) => [urlHost(url), findProxy(url, settings)]));
  return (host) => found.get(host);
}

function findProxy(url: URL, settings: ProxySettings): URL | undefined {
  const chosen = url.protocol === 'http:' ? settings.http : (settings.https ?? settings.http);
  if (chosen === undefined || chosen === '' || isProxyExempt(url, settings.except ?? '')) return undefined;
  const proxy = new URL(/^[a-z0-9+.-]+:\/\//i.test(chosen) ? chosen : `http://${chosen}`);
  if (proxy.protocol !== 'http:' && proxy.protocol !== 'https:') {
    throw new Error(`a proxy with the protocol "${proxy.protocol}" cannot be used for downloads`);
  }
  return proxy;
}

function isProxyExempt({ hostname, port }: URL, except: string): boolean {
  return except
    .split(/[\s,]+/)
    .filter((each) => each !== '')
    .some((each) => {
      if (each === '*') return true;
      const [, name = '', only] = /^\*?\.?(.*?)(?::(\d+))?$/.exec(each.toLowerCase()) ?? [];
      return (only === undefined || only === port) && (hostname === name || hostname.endsWith(`.${name}`));
    });
}

/** The settings in a file of npm. A name with `[]` has several values. */
type NpmrcValues = Readonly<Record<string, string | readonly string[]>>;

/** npm expands variables when it reads a file. A value that was read must not be expanded again. */
const quoteValue = (value: string): string => JSON.stringify(value.replaceAll('${', '\\${'));

const escapeName = (name: string): string => name.replace(/[\\;#]/g, (each) => `\\${each}`);

const variablePrefix = /^npm_config_/i;

/** The sources of a fetch from npm. */
export interface NpmSources extends PackageSources {
  /** The host whose tarballs npm takes from the user's registry instead: a name, `always` or `never`. */
  readonly replacedHost: string;
}

const npmjs = 'https://registry.npmjs.org/';
/** Settings for the connection to a registry. Other settings do not affect the fetch. */
const passedSettings = [
  ...['strict-ssl', 'ca', 'cert', 'key', 'maxsockets', 'legacy-peer-deps', 'before', 'min-release-age'],
  ...['fetch-timeout', 'fetch-retries', 'fetch-retry-factor', 'fetch-retry-mintimeout', 'fetch-retry-maxtimeout'],
];
/** npm waits 10 and then 60 seconds before it asks a registry again. Most clients give up before they learn the reason. */
const defaultRetries = { 'fetch-retry-mintimeout': '1000', 'fetch-retry-maxtimeout': '5000' };
/** Credentials of one registry; some of them name a file. */
const credentialName = /^(\/\/.+?):(_authToken|_auth|username|_password|email|always-auth|certfile|keyfile)$/;

/** Reads the user's registries of npm, with the credentials of these and of no others. */
export function readNpmSources(env: NodeJS.ProcessEnv, npm: string): NpmSources {
  const settings = readNpmSettings(env, npm);
  const scopes = Object.entries(settings).filter(([name]) => /^@[^:]+:registry$/.test(name));
  const registry = String(settings['registry'] ?? npmjs);
  const urls = [registry, ...scopes.map(([, value]) => String(value))].map(readRegistryUrl);
  const authorities = new Set(urls.map(({ host }) => `//${host}`));
  const secrets = urls.flatMap(({ password }) => (password === '' ? [] : [password]));
  const files: Record<string, string | Buffer> = {};
  const given: Record<string, string | readonly string[]> = {
    ...defaultRetries,
    ...Object.fromEntries(scopes),
    registry,
  };
  for (const name of passedSettings) if (settings[name] !== undefined) given[name] = settings[name];

  const copyFile = (path: string): string => {
    const name = `file-${Object.keys(files).length}.pem`;
    files[name] = readNamedFile(path);
    return `${settingsFolder}/${name}`;
  };
  const { cafile } = settings;
  if (typeof cafile === 'string' && cafile !== 'null' && cafile !== '') given['cafile'] = copyFile(cafile);
  for (const [name, value] of Object.entries(settings)) {
    const [, registryPath = '', kind = ''] = credentialName.exec(name) ?? [];
    if (!authorities.has(registryPath.split('/').slice(0, 3).join('/'))) continue;
    given[name] = kind.endsWith('file') ? copyFile(String(value)) : value;
    if (kind.startsWith('_')) secrets.push(String(value));
  }
  files['npmrc'] = writeNpmrc(given);
  const extra = env['NODE_EXTRA_CA_CERTS'];
  const proxies = readProxySettings(env);
  const readSetting = (name: string) =>
    typeof settings[name] === 'string' && settings[name] !== 'null' ? settings[name] : undefined;
  return {
    hosts: [...new Set(urls.map(urlHost))],
    replacedHost: String(settings['replace-registry-host'] ?? 'npmjs'),
    proxyFor: proxyFinder(urls, {
      https: readSetting('https-proxy') ?? readSetting('proxy') ?? proxies.https,
      http: readSetting('proxy') ?? proxies.http,
      except: [settings['noproxy'] ?? proxies.except ?? ''].flat().join(','),
    }),
    env: {
      npm_config_userconfig: `${settingsFolder}/npmrc`,
      npm_config_globalconfig: `${settingsFolder}/none`,
      npm_config_cache: cacheFolder,
      npm_config_logs_dir: `${cacheFolder}/logs`,
      ...(extra === undefined || extra === '' ? {} : { NODE_EXTRA_CA_CERTS: copyFile(extra) }),
    },
    files,
    secrets,
  };
}

function readRegistryUrl(text: string): URL {
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new Error(`this is not a registry: ${url.protocol}`);
  return url;
}

/**
 * Whether a project's `.npmrc` affects the environment. If npx has started Ambit there, npm passes on the settings of
 * the file as if they were the user's, and the project may be hostile.
 */
export function isSetByProject(env: NodeJS.ProcessEnv): boolean {
  const project = env['npm_config_local_prefix'];
  const file = project === undefined ? undefined : realpathIfThere(join(project, '.npmrc'));
  // The file in the home folder is the user's own.
  return file !== undefined && file !== realpathIfThere(join(env['HOME'] ?? '', '.npmrc'));
}

/**
 * Drops all settings of npm from the environment. The file of a project does not show which of them it has made: npm
 * reads it with variables of its own.
 */
export function dropNpmSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !variablePrefix.test(name)));
}

/**
 * The variables for an installation in a prefix of its own: the file with the settings of the machine, which npm looks
 * for below the prefix, and shorter waits between retries, where the user has not set them.
 */
export function installVariables(env: NodeJS.ProcessEnv, npm: string): Record<string, string> {
  const settings = readNpmSettings(env, npm);
  const missing = Object.entries(defaultRetries).filter(([name]) => settings[name] === undefined);
  return {
    ...locateMachineFile(env, npm),
    ...Object.fromEntries(missing.map(([name, value]) => [`npm_config_${name.replaceAll('-', '_')}`, value])),
  };
}

/** Reads the user's settings of npm: from the environment, then the user's file, then the machine's. */
function readNpmSettings(env: NodeJS.ProcessEnv, npm: string): NpmrcValues {
  const { builtIn, ofUser, byEnvironment } = readOwnSettings(env, npm);
  return { ...builtIn, ...readNpmrcFile(findMachineFile(env, npm), env), ...ofUser, ...byEnvironment };
}

/** The variable that names the file with the settings of the machine. */
export function locateMachineFile(env: NodeJS.ProcessEnv, npm: string): Record<string, string> {
  return { npm_config_globalconfig: findMachineFile(env, npm) };
}

/** Finds the file with the settings of the machine. It need not exist. */
function findMachineFile(env: NodeJS.ProcessEnv, npm: string): string {
  const { builtIn, ofUser, byEnvironment } = readOwnSettings(env, npm);
  const known = { ...builtIn, ...ofUser, ...byEnvironment };
  const prefix = known['prefix'] ?? env['PREFIX'] ?? findNodePrefix(env['PATH']);
  return String(known['globalconfig'] ?? join(String(prefix), 'etc/npmrc'));
}

function readOwnSettings(
  env: NodeJS.ProcessEnv,
  npm: string,
): Record<'builtIn' | 'ofUser' | 'byEnvironment', NpmrcValues> {
  const byEnvironment = readEnvironment(env);
  return {
    builtIn: readNpmrc(readSettingsFile(join(dirname(dirname(realpathSync.native(npm))), 'npmrc')), env),
    ofUser: readNpmrcFile(byEnvironment['userconfig'] ?? join(env['HOME'] ?? '/', '.npmrc'), env),
    byEnvironment,
  };
}

function readEnvironment(env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (!variablePrefix.test(name) || value === undefined || value === '') continue;
    const rest = name.replace(variablePrefix, '');
    found[rest.startsWith('//') ? rest : rest.replace(/(?!^)_/g, '-').toLowerCase()] = value;
  }
  return found;
}

function findNodePrefix(searchPath: string | undefined): string {
  const node = findProgramOnPath('node', searchPath);
  return node === undefined ? '/usr' : dirname(dirname(realpathSync.native(node)));
}

function readNpmrcFile(path: string | readonly string[], env: NodeJS.ProcessEnv): NpmrcValues {
  return readNpmrc(
    readSettingsFile(resolve(env['HOME'] ?? '/', String(path).replace(/^~(?=\/)/, env['HOME'] ?? '~'))),
    env,
  );
}

function realpathIfThere(path: string): string | undefined {
  return existsSync(path) ? realpathSync.native(path) : undefined;
}

/** Reads a file of npm as npm does: one `name = value` by line, with variables of the environment expanded. */
export function readNpmrc(text: string, env: NodeJS.ProcessEnv): NpmrcValues {
  const values = new Map<string, string | string[]>();
  for (const line of text.split(/[\r\n]+/)) {
    if (/^\s*(?:[;#]|$)/.test(line)) continue;
    // No relevant setting is in a section.
    if (/^\[[^\]]*\]\s*$/.test(line)) break;
    const [, left = '', right] = /^([^=]+)(?:=(.*))?$/.exec(line) ?? [];
    const key = replaceVariables(readWord(left), env);
    const value = replaceVariables(right === undefined ? 'true' : readWord(right), env);
    if (!key.endsWith('[]')) values.set(key, value);
    else {
      const name = key.slice(0, -2);
      const known = values.get(name);
      if (Array.isArray(known)) known.push(value);
      else values.set(name, known === undefined ? [value] : [known, value]);
    }
  }
  return Object.fromEntries(values);
}

/** Writes the same settings as a file, each value exactly as given. */
export function writeNpmrc(values: NpmrcValues): string {
  const lines = Object.entries(values).flatMap(([name, value]) =>
    typeof value === 'string'
      ? [`${escapeName(name)}=${quoteValue(value)}`]
      : value.map((each) => `${escapeName(name)}[]=${quoteValue(each)}`),
  );
  return `${lines.join('\n')}\n`;
}

function readWord(text: string): string {
  const word = text.trim();
  if (/^(?:".*"|'.*')$/s.test(word)) return readQuoted(word);
  const [plain = ''] = /^(?:\\.|[^;#\\]|\\$)*/s.exec(word) ?? [];
  return plain.replace(/\\([\\;#])/g, '$1').trim();
}

function readQuoted(word: string): string {
  const text = word.startsWith("'") ? word.slice(1, -1) : word;
  try {
    const read = JSON.parse(text) as unknown;
    return typeof read === 'object' ? text : String(read);
  } catch {
    return text;
  }
}

function replaceVariables(text: string, env: NodeJS.ProcessEnv): string {
  return text.replace(/(?<!\\)(\\*)\$\{([^${}?]+)(\?)?\}/g, (whole, escapes: string, name: string, mark) => {
    if (escapes.length % 2 === 1) return whole.slice((escapes.length + 1) / 2);
    return escapes.slice(escapes.length / 2) + (env[name] ?? (mark === '?' ? '' : `\${${name}}`));
  });
}
