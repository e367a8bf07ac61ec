import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { templateOf } from '../../upstreams/catalog/list-entries.ts';
import { readUriTemplate, type UriTemplate } from '../../upstreams/catalog/uri-template.ts';
import { type AllClaims, type Claims, claimsOf, type Place, placeOfTemplate } from './claims.ts';

/** The resource templates of a server, read. */
export interface Templates {
  /** Those that say their scheme. */
  readonly placed: readonly UriTemplate[];
  /** Those that do not. */
  readonly open: readonly UriTemplate[];
  readonly claims: Claims;
}

const none: Templates = { placed: [], open: [], claims: claimsOf([]) };
/** Lists are kept for a while, and each is read once. */
const known = new WeakMap<readonly string[], Templates>();

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
