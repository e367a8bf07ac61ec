import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { templateOf } from '../../upstreams/catalog/merge.ts';
import { readUriTemplate, type UriTemplate } from '../../upstreams/catalog/uri-template.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';

/** The resource templates of a server, read. */
interface Templates {
  /** Those that say their scheme. */
  readonly placed: readonly UriTemplate[];
  /** Those that do not. */
  readonly open: readonly UriTemplate[];
  readonly claims: Claims;
}

const none: Templates = { placed: [], open: [], claims: claimsOf([]) };

/** Lists are kept for a while, and each is read once. */
const known = new WeakMap<readonly string[], Templates>();

/** The scheme and the authority of an address. */
export interface Place {
  /** Empty for an address without one. */
  readonly scheme: string;
  /** Undefined for a template that leaves it open. */
  readonly authority: string | undefined;
}

/** The places of the addresses that a server uses. */
export interface Claims {
  readonly schemes: ReadonlySet<string>;
  /** The schemes of templates that leave the authority open. */
  readonly wideSchemes: ReadonlySet<string>;
  readonly places: ReadonlySet<string>;
}

/** By the name of the server: what it lists, and what its templates say. */
export type AllClaims = ReadonlyMap<string, readonly Claims[]>;

/** No authority is longer, and servers write addresses of any length. */
const longestPlace = 1024;

/** The place of an address. Spellings that a server may take for the same place have the same one. */
export function placeOf(uri: string): Place {
  const text = cleaned(uri);
  const scheme = schemeOf(text);
  if (scheme === undefined) return { scheme: '', authority: '' };
  const authority = /^\/\/([^/?#]*)/.exec(text.slice(scheme.length + 1))?.[1] ?? '';
  return { scheme, authority: normalised(scheme, authority) };
}

/** The place of all addresses that a template can make; undefined where it does not even say the scheme. */
export function placeOfTemplate(template: string): Place | undefined {
  const prefix = cleaned(template.split('{', 1)[0] ?? '');
  const scheme = schemeOf(prefix);
  if (scheme === undefined) return undefined;
  const rest = prefix.slice(scheme.length + 1);
  const isOpen = template.includes('{') && /^(?:\/?|\/\/[^/?#]*)$/.test(rest);
  return isOpen ? { scheme, authority: undefined } : placeOf(prefix);
}

/** Collects the schemes and authorities that a server claims by these places. */
export function claimsOf(places: Iterable<Place>): Claims {
  const claims = { schemes: new Set<string>(), wideSchemes: new Set<string>(), places: new Set<string>() };
  for (const place of places) {
    claims.schemes.add(place.scheme);
    if (place.authority === undefined) claims.wideSchemes.add(place.scheme);
    else claims.places.add(keyOf(place));
  }
  return claims;
}

/** The names of the servers that use a place, or a part of it. */
export function claimantsOf(all: AllClaims, place: Place): string[] {
  return [...all].filter(([, claims]) => claims.some((each) => meets(each, place))).map(([server]) => server);
}

/** Whether any other server uses the place, or a part of it. */
function isClaimedBeside(all: AllClaims, place: Place, server: string): boolean {
  for (const [name, claims] of all) if (name !== server && claims.some((each) => meets(each, place))) return true;
  return false;
}

/** The names of the servers that use a scheme with whatever authority. */
export function usersOfScheme(all: AllClaims, scheme: string): string[] {
  return claimantsOf(all, { scheme, authority: undefined });
}

function meets({ schemes, wideSchemes, places }: Claims, place: Place): boolean {
  if (place.authority === undefined) return schemes.has(place.scheme);
  return wideSchemes.has(place.scheme) || places.has(keyOf(place));
}

function keyOf({ scheme, authority }: Place): string {
  return `${scheme}://${authority}`;
}

/** As lenient readers take it: without blanks, with slashes only. */
function cleaned(uri: string): string {
  return uri
    .slice(0, longestPlace)
    .replace(/[\u0000-\u0020]+/g, '')
    .replaceAll('\\', '/');
}

function schemeOf(text: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1]?.toLowerCase();
}

/** Without the user and the usual ports, decoded, in small letters. */
function normalised(scheme: string, authority: string): string {
  const host = decoded(authority.slice(authority.lastIndexOf('@') + 1))
    .toLowerCase()
    .replace(/:(?:80|443)?$/, '')
    .replace(/\.$/, '');
  return scheme === 'file' && host === 'localhost' ? '' : host;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readTemplates(entries: readonly string[]): Templates {
  const before = known.get(entries);
  if (before !== undefined) return before;
  const placed: UriTemplate[] = [];
  const open: UriTemplate[] = [];
  const places: Place[] = [];
  for (const text of entries.flatMap((entry) => templateOf(entry) ?? [])) {
    const place = placeOfTemplate(text);
    if (place !== undefined) places.push(place);
    (place === undefined ? open : placed).push(readUriTemplate(text));
  }
  const read = { placed, open, claims: claimsOf(places) };
  known.set(entries, read);
  return read;
}

/** The templates that a server offers. */
export function templatesOf({ offer }: Listed): Templates {
  return offer === undefined ? none : readTemplates(offer.templates);
}

/** What each server with resources claims: by its templates, and by what it lists. */
export function allClaims(offers: readonly Listed[], lists: ReadonlyMap<string, Claims>): AllClaims {
  const all = new Map<string, Claims[]>();
  for (const { server, offer } of offers) {
    const listed = lists.get(server.name);
    if (offer?.hasResources !== true && listed === undefined && (offer?.templates.length ?? 0) === 0) continue;
    const byTemplates = offer === undefined ? none.claims : readTemplates(offer.templates).claims;
    all.set(server.name, listed === undefined ? [byTemplates] : [listed, byTemplates]);
  }
  return all;
}

/** An address or a template as it names the server it is meant for. */
export function namingServer(server: string, uri: string): string {
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
 * the same place. A template that does not say its place could mean anything of the others.
 */
export function publicUri(server: string, uri: string, place: Place | undefined, all: AllClaims): string {
  const isShared =
    place === undefined ? [...all.keys()].some((name) => name !== server) : isClaimedBeside(all, place, server);
  return isShared || readNamedUri([], uri) !== undefined ? namingServer(server, uri) : uri;
}
