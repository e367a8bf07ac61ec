import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { templateOf } from '../../upstreams/catalog/merge.ts';
import { type AllClaims, type Claims, claimsOf, type Place, placeOfTemplate } from './claims.ts';

/** A resource template of a server, read. */
export interface Template {
  readonly text: string;
  /** Undefined where it does not say the scheme. */
  readonly place: Place | undefined;
}

interface Read {
  readonly templates: readonly Template[];
  readonly claims: Claims;
}

/** Lists are kept for a while, and each is read once. */
const known = new WeakMap<readonly string[], Read>();

function readTemplates(entries: readonly string[]): Read {
  const before = known.get(entries);
  if (before !== undefined) return before;
  const templates = entries.map((entry) => {
    const text = templateOf(entry) ?? '';
    return { text, place: placeOfTemplate(text) };
  });
  const read = { templates, claims: claimsOf(templates.flatMap(({ place }) => place ?? [])) };
  known.set(entries, read);
  return read;
}

/** The templates of a server, in its order. */
export function templatesOf({ offer }: Listed): readonly Template[] {
  return offer === undefined ? [] : readTemplates(offer.templates).templates;
}

/** What each server with resources claims: by its templates, and by what it lists. */
export function allClaims(offers: readonly Listed[], lists: ReadonlyMap<string, Claims>): AllClaims {
  const all = new Map<string, Claims[]>();
  for (const { server, offer } of offers) {
    const listed = lists.get(server.name);
    if (offer?.hasResources !== true && listed === undefined && (offer?.templates.length ?? 0) === 0) continue;
    const byTemplates = offer === undefined ? [] : [readTemplates(offer.templates).claims];
    all.set(server.name, listed === undefined ? byTemplates : [listed, ...byTemplates]);
  }
  return all;
}
