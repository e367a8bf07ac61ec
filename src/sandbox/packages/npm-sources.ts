import { readFileSync } from 'node:fs';
import { readNpmSettings } from './npm-settings.ts';
import { writeNpmrc } from './npmrc.ts';
import { cacheFolder, hostOf, type PackageSources, settingsFolder } from './package-sources.ts';
import { proxiesOf, proxyFinder } from './user-proxy.ts';

/** What a fetch from npm knows of its registries. */
export interface NpmSources extends PackageSources {
  /** The host in the lock file whose tarballs npm takes from the registry of the user instead: a name, `always` or `never`. */
  readonly replacedHost: string;
}

const npmjs = 'https://registry.npmjs.org/';
/** How a registry is reached. Whatever else is set has no say in what is fetched. */
const passedOn = [
  ...['strict-ssl', 'ca', 'cert', 'key', 'maxsockets', 'legacy-peer-deps', 'before', 'min-release-age'],
  ...['fetch-timeout', 'fetch-retries', 'fetch-retry-factor', 'fetch-retry-mintimeout', 'fetch-retry-maxtimeout'],
];
/** Settings of one registry that are credentials, and those among them that name a file. */
const credential = /^(\/\/.+?):(_authToken|_auth|username|_password|email|always-auth|certfile|keyfile)$/;

/** The registries the user's npm is set to, with the credentials of these registries and of no other. */
export function npmSources(env: NodeJS.ProcessEnv, npm: string): NpmSources {
  const settings = readNpmSettings(env, npm);
  const scopes = Object.entries(settings).filter(([name]) => /^@[^:]+:registry$/.test(name));
  const registry = String(settings['registry'] ?? npmjs);
  const urls = [registry, ...scopes.map(([, value]) => String(value))].map(readUrl);
  const authorities = new Set(urls.map(({ host }) => `//${host}`));
  const secrets = urls.flatMap(({ password }) => (password === '' ? [] : [password]));
  const files: Record<string, string | Buffer> = {};
  const given: Record<string, string | readonly string[]> = { ...Object.fromEntries(scopes), registry };
  for (const name of passedOn) if (settings[name] !== undefined) given[name] = settings[name];

  const copy = (path: string): string => {
    const name = `file-${Object.keys(files).length}.pem`;
    files[name] = readFileSync(path);
    return `${settingsFolder}/${name}`;
  };
  const { cafile } = settings;
  if (typeof cafile === 'string' && cafile !== 'null' && cafile !== '') given['cafile'] = copy(cafile);
  for (const [name, value] of Object.entries(settings)) {
    const [, place = '', kind = ''] = credential.exec(name) ?? [];
    if (!authorities.has(place.split('/').slice(0, 3).join('/'))) continue;
    given[name] = kind.endsWith('file') ? copy(String(value)) : value;
    if (kind.startsWith('_')) secrets.push(String(value));
  }
  files['npmrc'] = writeNpmrc(given);
  const extra = env['NODE_EXTRA_CA_CERTS'];
  const proxies = proxiesOf(env);
  const named = (name: string) =>
    typeof settings[name] === 'string' && settings[name] !== 'null' ? settings[name] : undefined;
  return {
    hosts: [...new Set(urls.map(hostOf))],
    replacedHost: String(settings['replace-registry-host'] ?? 'npmjs'),
    proxyFor: proxyFinder(urls, {
      https: named('https-proxy') ?? named('proxy') ?? proxies.https,
      http: named('proxy') ?? proxies.http,
      except: [settings['noproxy'] ?? proxies.except ?? ''].flat().join(','),
    }),
    env: {
      npm_config_userconfig: `${settingsFolder}/npmrc`,
      npm_config_globalconfig: `${settingsFolder}/none`,
      npm_config_cache: cacheFolder,
      npm_config_logs_dir: `${cacheFolder}/logs`,
      ...(extra === undefined || extra === '' ? {} : { NODE_EXTRA_CA_CERTS: copy(extra) }),
    },
    files,
    secrets,
  };
}

function readUrl(text: string): URL {
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw new Error(`this is not a registry: ${url.protocol}`);
  return url;
}
