import { hostOf } from './package-sources.ts';

/** What says by which proxy the user reaches the network. */
export interface ProxySettings {
  readonly https?: string | undefined;
  readonly http?: string | undefined;
  /** Hosts that are reached without one, separated by commas. */
  readonly except?: string | undefined;
}

/** As the variables of the environment have it. */
export function proxiesOf(env: NodeJS.ProcessEnv): ProxySettings {
  const named = (name: string) => env[name.toLowerCase()] || env[name.toUpperCase()] || undefined;
  const any = named('all_proxy');
  return { https: named('https_proxy') ?? any, http: named('http_proxy') ?? any, except: named('no_proxy') };
}

/** Finds the proxy for each of these URLs by its host and port. Throws for a proxy that is not one for HTTP. */
export function proxyFinder(urls: readonly URL[], settings: ProxySettings): (host: string) => URL | undefined {
  const found = new Map(urls.map((url) => [hostOf(url), findProxy(url, settings)]));
  return (host) => found.get(host);
}

function findProxy(url: URL, settings: ProxySettings): URL | undefined {
  const chosen = url.protocol === 'http:' ? settings.http : (settings.https ?? settings.http);
  if (chosen === undefined || chosen === '' || isExcepted(url, settings.except ?? '')) return undefined;
  const proxy = new URL(/^[a-z0-9+.-]+:\/\//i.test(chosen) ? chosen : `http://${chosen}`);
  if (proxy.protocol !== 'http:' && proxy.protocol !== 'https:') {
    throw new Error(`a proxy of the kind "${proxy.protocol}" cannot be used for a fetch`);
  }
  return proxy;
}

function isExcepted({ hostname, port }: URL, except: string): boolean {
  return except
    .split(/[\s,]+/)
    .filter((each) => each !== '')
    .some((each) => {
      if (each === '*') return true;
      const [, name = '', only] = /^\*?\.?(.*?)(?::(\d+))?$/.exec(each.toLowerCase()) ?? [];
      return (only === undefined || only === port) && (hostname === name || hostname.endsWith(`.${name}`));
    });
}
