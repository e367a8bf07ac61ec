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
