/** Where the packages of one fetch come from, and what is needed to reach it. */
export interface PackageSources {
  /** The registries, as `host:port`. Nothing else is reached. */
  readonly hosts: readonly string[];
  /** Small files for the tool that fetches, by name: settings, credentials, certificates. They are found in `settingsFolder`. */
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
/** Written by the tool that fetches, and gone after the fetch. */
export const cacheFolder = '/run/fetch/cache';

/** The host and port that a URL of a registry leads to. */
export function hostOf(url: URL): string {
  return `${url.hostname}:${url.port === '' ? (url.protocol === 'http:' ? 80 : 443) : url.port}`;
}
