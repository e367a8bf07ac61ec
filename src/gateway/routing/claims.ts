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
export function isClaimedBeside(all: AllClaims, place: Place, server: string): boolean {
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
