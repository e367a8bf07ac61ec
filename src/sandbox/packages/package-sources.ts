/** The proxies by which the user reaches the network. */
interface ProxySettings {
  readonly https?: string | undefined;
  readonly http?: string | undefined;
  /** Hosts that are reached without one, separated by commas. */
  readonly except?: string | undefined;
}
/** The sources of the packages of one fetch, with everything that is needed to reach them. */
export interface PackageSources {
  /** The registries, as `host:port`. Nothing else is reached. */
  readonly hosts: readonly string[];
  /**
   * Small files for the tool that fetches, by name: settings, credentials, certificates. They are put into
   * `settingsFolder`.
   */
  readonly files: Readonly<Record<string, string | Buffer>>;
  readonly env: Readonly<Record<string, string>>;
  /** The proxy of the user by which one of the hosts is reached; undefined where it is reached directly. */
  readonly proxyFor: (host: string) => URL | undefined;
  /** Values that are shown to nobody, whatever a tool says. */
  readonly secrets: readonly string[];
  /** Further files of this machine that the tool needs to be seen: real paths. */
  readonly readable?: readonly string[];
}

/** Inside the sandbox of a fetch: nothing there is part of what is fetched. */
export const settingsFolder = '/run/fetch/settings';
/** The cache of the tool that fetches, removed after the fetch. */
export const cacheFolder = '/run/fetch/cache';

/** The host and port that a URL of a registry leads to. */
export function formatUrlHost(url: URL): string {
  return `${url.hostname}:${url.port === '' ? (url.protocol === 'http:' ? 80 : 443) : url.port}`;
}

/** Reads the proxies from the variables of the environment. */
export function readProxySettings(env: NodeJS.ProcessEnv): ProxySettings {
  const named = (name: string) => env[name.toLowerCase()] || env[name.toUpperCase()] || undefined;
  const any = named('all_proxy');
  return { https: named('https_proxy') ?? any, http: named('http_proxy') ?? any, except: named('no_proxy') };
}

/** Finds the proxy for each of these URLs by its host and port. Throws for a proxy that is not one for HTTP. */
export function createProxyFinder(urls: readonly URL[], settings: ProxySettings): (host: string) => URL | undefined {
  const found = new Map(urls.map((url) => [formatUrlHost(url), findProxy(url, settings)]));
  return (host) => found.get(host);
}

function findProxy(url: URL, settings: ProxySettings): URL | undefined {
  const chosen = url.protocol === 'http:' ? settings.http : (settings.https ?? settings.http);
  if (chosen === undefined || chosen === '' || isProxyExempt(url, settings.except ?? '')) return undefined;
  const proxy = new URL(/^[a-z0-9+.-]+:\/\//i.test(chosen) ? chosen : `http://${chosen}`);
  if (proxy.protocol !== 'http:' && proxy.protocol !== 'https:') {
    throw new Error(`a proxy of the kind "${proxy.protocol}" cannot be used for a fetch`);
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
