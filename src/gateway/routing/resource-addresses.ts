import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import { readAppUris, readTemplate } from '../../upstreams/catalog/list-entries.ts';
import { readUriTemplate, type UriTemplate } from '../../upstreams/catalog/uri-template.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';

interface ResourceTemplates {
  readonly withScheme: readonly UriTemplate[];
  readonly withoutScheme: readonly UriTemplate[];
  readonly claims: UriClaims;
}

const noTemplates: ResourceTemplates = { withScheme: [], withoutScheme: [], claims: collectClaims([]) };

/** The templates of each cached list, so that each list is parsed once. */
const templatesByList = new WeakMap<readonly string[], ResourceTemplates>();

interface AppAddresses {
  readonly uris: readonly string[];
  readonly claims: UriClaims;
}

/** The addresses of apps in each cached list of tools, so that each list is read once. */
const appsByList = new WeakMap<readonly string[], AppAddresses>();

/** The beginning of the address of an MCP App. Hosts show nothing that begins otherwise. */
const appScheme = 'ui://';

/** The scheme and the authority of an address. */
export interface UriOrigin {
  /** Empty if the address has none. */
  readonly scheme: string;
  /** Undefined for a template with a variable authority. */
  readonly authority: string | undefined;
}

/** The origins of the addresses that a server uses. */
export interface UriClaims {
  readonly schemes: ReadonlySet<string>;
  /** The schemes of templates with a variable authority. */
  readonly wideSchemes: ReadonlySet<string>;
  readonly origins: ReadonlySet<string>;
}

/** The claims of each server: by its list, by its templates, and by the apps of its tools. */
export type ClaimsByServer = ReadonlyMap<string, readonly UriClaims[]>;

/** The addresses of all servers of a session. */
export interface AddressSpace {
  readonly claims: ClaimsByServer;
  /** True if the session has one server only. */
  readonly isOnly: boolean;
}

/** Longer addresses are cut before they are read, because servers write addresses of any length. */
const maxOriginLength = 1024;

/** Reads the origin of an address. Spellings that a server may treat as equal have the same origin. */
export function readOrigin(uri: string): UriOrigin {
  const text = cleanUri(uri);
  const scheme = readScheme(text);
  if (scheme === undefined) return { scheme: '', authority: '' };
  const authority = /^\/\/([^/?#]*)/.exec(text.slice(scheme.length + 1))?.[1] ?? '';
  return { scheme, authority: normalizeAuthority(scheme, authority) };
}

/** Reads the origin of all addresses of a template; undefined if it has no scheme. */
export function readTemplateOrigin(template: string): UriOrigin | undefined {
  const prefix = cleanUri(template.split('{', 1)[0] ?? '');
  const scheme = readScheme(prefix);
  if (scheme === undefined) return undefined;
  const rest = prefix.slice(scheme.length + 1);
  const isOpen = template.includes('{') && /^(?:\/?|\/\/[^/?#]*)$/.test(rest);
  return isOpen ? { scheme, authority: undefined } : readOrigin(prefix);
}

export function collectClaims(origins: Iterable<UriOrigin>): UriClaims {
  const claims = { schemes: new Set<string>(), wideSchemes: new Set<string>(), origins: new Set<string>() };
  for (const origin of origins) {
    claims.schemes.add(origin.scheme);
    if (origin.authority === undefined) claims.wideSchemes.add(origin.scheme);
    else claims.origins.add(originKey(origin));
  }
  return claims;
}

/** Finds the servers that use an origin, or a part of it. */
export function findClaimants(all: ClaimsByServer, origin: UriOrigin): string[] {
  return [...all].filter(([, claims]) => claims.some((each) => claimsOrigin(each, origin))).map(([server]) => server);
}

/** Tells whether another server uses the origin, or a part of it. */
export function isClaimedByOther(all: ClaimsByServer, origin: UriOrigin, server: string): boolean {
  for (const [name, claims] of all)
    if (name !== server && claims.some((each) => claimsOrigin(each, origin))) return true;
  return false;
}

function claimsOrigin({ schemes, wideSchemes, origins }: UriClaims, origin: UriOrigin): boolean {
  if (origin.authority === undefined) return schemes.has(origin.scheme);
  return wideSchemes.has(origin.scheme) || origins.has(originKey(origin));
}

function originKey({ scheme, authority }: UriOrigin): string {
  return `${scheme}://${authority}`;
}

/** Cleans an address as lenient parsers do: no blanks, only slashes. */
function cleanUri(uri: string): string {
  return uri
    .slice(0, maxOriginLength)
    .replace(/[\u0000-\u0020]+/g, '')
    .replaceAll('\\', '/');
}

function readScheme(text: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase();
}

/** Removes the user and default ports, decodes, and lowers the case. */
function normalizeAuthority(scheme: string, authority: string): string {
  const host = decodePart(authority.slice(authority.lastIndexOf('@') + 1))
    .toLowerCase()
    .replace(/:(?:80|443)?$/, '')
    .replace(/\.$/, '');
  return scheme === 'file' && host === 'localhost' ? '' : host;
}

function decodePart(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readTemplates(entries: readonly string[]): ResourceTemplates {
  const before = templatesByList.get(entries);
  if (before !== undefined) return before;
  const withScheme: UriTemplate[] = [];
  const withoutScheme: UriTemplate[] = [];
  const origins: UriOrigin[] = [];
  for (const text of entries.flatMap((entry) => readTemplate(entry) ?? [])) {
    const origin = readTemplateOrigin(text);
    if (origin !== undefined) origins.push(origin);
    (origin === undefined ? withoutScheme : withScheme).push(readUriTemplate(text));
  }
  const read = { withScheme, withoutScheme, claims: collectClaims(origins) };
  templatesByList.set(entries, read);
  return read;
}

export function findTemplates({ offer }: ServerListing): ResourceTemplates {
  return offer === undefined ? noTemplates : readTemplates(offer.templates);
}

/** Finds the addresses of apps that the tools of a server name. Servers need not list these among their resources. */
export function findAppUris({ offer }: ServerListing): AppAddresses {
  const texts = offer?.tools ?? [];
  const before = appsByList.get(texts);
  if (before !== undefined) return before;
  const uris = [...new Set(texts.flatMap(readAppUris))];
  const read = { uris, claims: collectClaims(uris.map(readOrigin)) };
  appsByList.set(texts, read);
  return read;
}

/** Merges the claims of each server with resources: by its list, by its templates, and by the apps of its tools. */
export function mergeClaims(offers: readonly ServerListing[], lists: ReadonlyMap<string, UriClaims>): ClaimsByServer {
  const all = new Map<string, UriClaims[]>();
  for (const each of offers) {
    const { server, offer } = each;
    const listed = lists.get(server.name);
    const apps = findAppUris(each);
    const hasNone = offer?.hasResources !== true && (offer?.templates.length ?? 0) === 0 && apps.uris.length === 0;
    if (hasNone && listed === undefined) continue;
    const claims = [findTemplates(each).claims, apps.claims];
    all.set(server.name, listed === undefined ? claims : [listed, ...claims]);
  }
  return all;
}

/**
 * Puts the name of the server in front of an address or a template. The address of an app keeps its scheme, because
 * hosts accept no other: `ui://app` becomes `ui://ambit+NAME/app`.
 */
export function addServerName(server: string, uri: string): string {
  return isAppUri(uri) ? `${appScheme}ambit+${server}/${uri.slice(appScheme.length)}` : `ambit+${server}:${uri}`;
}

/** Tells whether a host may show the address as an app. */
export function isAppUri(uri: string): boolean {
  return uri.startsWith(appScheme);
}

/**
 * Reads an address that names its server, as `addServerName` writes it: the server, if available, and its own address.
 * Undefined for any other address. No server can have such an address itself.
 */
export function readNamedUri(
  available: readonly ServerDefinition[],
  uri: string,
): { readonly server: ServerDefinition | undefined; readonly uri: string } | undefined {
  const named = /^\s*(?:ambit\+([^:]*):|(ui:\/\/)ambit\+([^/]*)\/)(.*)$/is.exec(uri);
  if (named === null) return undefined;
  const [, plainName, scheme = '', appName, rest = ''] = named;
  const name = (plainName ?? appName)?.toLowerCase();
  return { server: available.find((each) => each.name === name), uri: scheme + rest };
}

/** Tells whether a lenient reader could take the origin for the name of a server, for example after removing blanks. */
function looksNamed(origin: UriOrigin | undefined): boolean {
  if (origin === undefined) return false;
  const { scheme, authority } = origin;
  return scheme.startsWith('ambit+') || (scheme === 'ui' && authority?.startsWith('ambit+') === true);
}

/**
 * Creates the address or template that clients see. It names the server if another server uses the same origin. A
 * template without an origin could match addresses of any server. An app always names its server if there are several,
 * so that the tools of one server never lead to the app of another, whatever the other server lists later.
 */
export function createPublicUri(
  server: string,
  uri: string,
  origin: UriOrigin | undefined,
  { claims, isOnly }: AddressSpace,
): string {
  // Ambit's own resources have a scheme of their own, and no server may offer one that looks like them.
  if (readNamedUri([], uri) !== undefined || looksNamed(origin) || origin?.scheme === 'ambit')
    return addServerName(server, uri);
  if (origin?.scheme === 'ui') return isOnly ? uri : addServerName(server, uri);
  const isShared =
    origin === undefined
      ? [...claims.keys()].some((name) => name !== server)
      : isClaimedByOther(claims, origin, server);
  return isShared ? addServerName(server, uri) : uri;
}
