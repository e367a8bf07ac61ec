import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { templateOf } from '../../upstreams/catalog/merge.ts';
import { readUriTemplate, type UriTemplate } from '../../upstreams/catalog/uri-template.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';

/** The resource templates of a server, read. */
interface ResourceTemplates {
  /** Those that say their scheme. */
  readonly withScheme: readonly UriTemplate[];
  /** Those that do not. */
  readonly withoutScheme: readonly UriTemplate[];
  readonly claims: UriClaims;
}

const noTemplates: ResourceTemplates = { withScheme: [], withoutScheme: [], claims: collectClaims([]) };

/** Lists are kept for a while, and each is read once. */
const templatesByList = new WeakMap<readonly string[], ResourceTemplates>();

/** The scheme and the authority of an address. */
export interface UriOrigin {
  /** Empty for an address without one. */
  readonly scheme: string;
  /** Undefined for a template that leaves it open. */
  readonly authority: string | undefined;
}

/** The origins of the addresses that a server uses. */
export interface UriClaims {
  readonly schemes: ReadonlySet<string>;
  /** The schemes of templates that leave the authority open. */
  readonly wideSchemes: ReadonlySet<string>;
  readonly origins: ReadonlySet<string>;
}

/** By the name of the server: what it lists, and what its templates say. */
export type ClaimsByServer = ReadonlyMap<string, readonly UriClaims[]>;

/** No authority is longer, and servers write addresses of any length. */
const maxOriginLength = 1024;

/** The origin of an address. Spellings that a server may take for the same origin have the same one. */
export function readOrigin(uri: string): UriOrigin {
  const text = cleanUri(uri);
  const scheme = readScheme(text);
  if (scheme === undefined) return { scheme: '', authority: '' };
  const authority = /^\/\/([^/?#]*)/.exec(text.slice(scheme.length + 1))?.[1] ?? '';
  return { scheme, authority: normalizeAuthority(scheme, authority) };
}

/** The origin of all addresses that a template can make; undefined where it does not even say the scheme. */
export function readTemplateOrigin(template: string): UriOrigin | undefined {
  const prefix = cleanUri(template.split('{', 1)[0] ?? '');
  const scheme = readScheme(prefix);
  if (scheme === undefined) return undefined;
  const rest = prefix.slice(scheme.length + 1);
  const isOpen = template.includes('{') && /^(?:\/?|\/\/[^/?#]*)$/.test(rest);
  return isOpen ? { scheme, authority: undefined } : readOrigin(prefix);
}

/** Collects the schemes and authorities that a server claims by these origins. */
export function collectClaims(origins: Iterable<UriOrigin>): UriClaims {
  const claims = { schemes: new Set<string>(), wideSchemes: new Set<string>(), origins: new Set<string>() };
  for (const origin of origins) {
    claims.schemes.add(origin.scheme);
    if (origin.authority === undefined) claims.wideSchemes.add(origin.scheme);
    else claims.origins.add(originKey(origin));
  }
  return claims;
}

/** The names of the servers that use an origin, or a part of it. */
export function findClaimants(all: ClaimsByServer, origin: UriOrigin): string[] {
  return [...all].filter(([, claims]) => claims.some((each) => claimsOrigin(each, origin))).map(([server]) => server);
}

/** Whether any other server uses the origin, or a part of it. */
function isClaimedByOther(all: ClaimsByServer, origin: UriOrigin, server: string): boolean {
  for (const [name, claims] of all)
    if (name !== server && claims.some((each) => claimsOrigin(each, origin))) return true;
  return false;
}

/** The names of the servers that use a scheme with whatever authority. */
export function findSchemeUsers(all: ClaimsByServer, scheme: string): string[] {
  return findClaimants(all, { scheme, authority: undefined });
}

function claimsOrigin({ schemes, wideSchemes, origins }: UriClaims, origin: UriOrigin): boolean {
  if (origin.authority === undefined) return schemes.has(origin.scheme);
  return wideSchemes.has(origin.scheme) || origins.has(originKey(origin));
}

function originKey({ scheme, authority }: UriOrigin): string {
  return `${scheme}://${authority}`;
}

/** As lenient readers take it: without blanks, with slashes only. */
function cleanUri(uri: string): string {
  return uri
    .slice(0, maxOriginLength)
    .replace(/[\u0000-\u0020]+/g, '')
    .replaceAll('\\', '/');
}

function readScheme(text: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase();
}

/** Without the user and the usual ports, decoded, in small letters. */
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
  for (const text of entries.flatMap((entry) => templateOf(entry) ?? [])) {
    const origin = readTemplateOrigin(text);
    if (origin !== undefined) origins.push(origin);
    (origin === undefined ? withoutScheme : withScheme).push(readUriTemplate(text));
  }
  const read = { withScheme, withoutScheme, claims: collectClaims(origins) };
  templatesByList.set(entries, read);
  return read;
}

/** The templates that a server offers. */
export function findTemplates({ offer }: Listed): ResourceTemplates {
  return offer === undefined ? noTemplates : readTemplates(offer.templates);
}

/** What each server with resources claims: by its templates, and by what it lists. */
export function mergeClaims(offers: readonly Listed[], lists: ReadonlyMap<string, UriClaims>): ClaimsByServer {
  const all = new Map<string, UriClaims[]>();
  for (const { server, offer } of offers) {
    const listed = lists.get(server.name);
    if (offer?.hasResources !== true && listed === undefined && (offer?.templates.length ?? 0) === 0) continue;
    const byTemplates = offer === undefined ? noTemplates.claims : readTemplates(offer.templates).claims;
    all.set(server.name, listed === undefined ? [byTemplates] : [listed, byTemplates]);
  }
  return all;
}

/** An address or a template as it names the server it is meant for. */
export function addServerName(server: string, uri: string): string {
  return `ambit+${server}:${uri}`;
}

/**
 * Reads an address with `ambit+NAME:` in front: the server, where it is available, and the server's own address.
 * Undefined for any other address. No server can have such an address itself.
 */
export function readNamedUri(
  available: readonly ServerDefinition[],
  uri: string,
): { readonly server: ServerDefinition | undefined; readonly uri: string } | undefined {
  const named = /^\s*ambit\+([^:]*):(.*)$/is.exec(uri);
  if (named === null) return undefined;
  const name = named[1]?.toLowerCase();
  return { server: available.find((each) => each.name === name), uri: named[2] ?? '' };
}

/**
 * The address or template of a server as clients are shown it: with the server's name in front where another server uses
 * the same origin. A template that does not say its origin could mean anything of the others.
 */
export function createPublicUri(
  server: string,
  uri: string,
  origin: UriOrigin | undefined,
  all: ClaimsByServer,
): string {
  const isShared =
    origin === undefined ? [...all.keys()].some((name) => name !== server) : isClaimedByOther(all, origin, server);
  return isShared || readNamedUri([], uri) !== undefined ? addServerName(server, uri) : uri;
}
