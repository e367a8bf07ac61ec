import { setImmediate as nextTurn } from 'node:timers/promises';
import { AmbitError } from '../../errors.ts';
import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { fitsTemplate, templateOf } from '../../upstreams/catalog/merge.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Found } from './find-server.ts';
import type { ForAll } from './for-all.ts';

/** By the address that clients are shown: the server that lists it, and its own address for it. */
export type Routes = ReadonlyMap<string, { readonly server: string; readonly uri: string }>;

export interface FoundUris {
  readonly found: ReadonlyMap<string, Found>;
  /** Those that several servers have an equal claim to, with the names of these. */
  readonly ambiguous: ReadonlyMap<string, readonly string[]>;
}

interface Template {
  readonly server: ServerDefinition;
  readonly text: string;
  /** What it says in its own words before the first expression. */
  readonly prefix: string;
}

const urisInOneTurn = 50;

/**
 * Which server each URI belongs to, with room for others in between. Stops when nobody waits for it any more. One that
 * lists it has it; else the one whose template says most of it in its own words. A template that does not even say the
 * scheme takes only what no other server has anything to do with: else one server could read what is asked of another.
 */
export async function findUris(
  exchange: ForAll,
  uris: readonly string[],
  routes: Routes,
  offers: readonly Listed[],
): Promise<FoundUris> {
  const templates = offers.flatMap(templatesOf);
  const schemes = schemesOf(routes, templates);
  const found = new Map<string, Found>();
  const ambiguous = new Map<string, readonly string[]>();
  for (const [index, uri] of uris.entries()) {
    const listed = findListed(exchange, uri, routes);
    const servers = listed === undefined ? findByTemplate(uri, templates, schemes) : [];
    const [server] = servers.length === 0 ? onlyOne(offers) : servers;
    if (listed !== undefined) found.set(uri, listed);
    else if (servers.length > 1)
      ambiguous.set(
        uri,
        servers.map(({ name }) => name),
      );
    else if (server !== undefined) found.set(uri, { server, name: uri });
    if (index % urisInOneTurn < urisInOneTurn - 1) continue;
    await nextTurn();
    if (exchange.channel.isGone()) break;
  }
  return { found, ambiguous };
}

/** One that a server lists, or that names the server it is meant for. */
export function findListed({ available }: ForAll, uri: string, routes: Routes): Found | undefined {
  const named = /^ambit\+([a-z0-9-]+):(.*)$/s.exec(uri);
  const meant = named === null ? undefined : available.find(({ name }) => name === named[1]);
  if (meant !== undefined) return { server: meant, name: named?.[2] ?? '' };
  const route = routes.get(uri);
  const server = available.find(({ name }) => name === route?.server);
  return route === undefined || server === undefined ? undefined : { server, name: route.uri };
}

/** The refusal of an address that several servers have an equal claim to. */
export function ambiguousUri(uri: string, servers: readonly string[]): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: `The address "${uri.slice(0, 100)}" fits templates of several servers alike: ${servers.join(', ')}.`,
    hint: `Say which one is meant by "ambit+NAME:" in front of the address, as in "ambit+${servers[0]}:…".`,
  });
}

function templatesOf({ server, offer }: Listed): Template[] {
  return (offer?.templates ?? []).map((entry) => {
    const text = templateOf(entry) ?? '';
    return { server, text, prefix: text.split('{', 1)[0] ?? '' };
  });
}

/** The servers that have anything to do with each scheme. */
function schemesOf(routes: Routes, templates: readonly Template[]): ReadonlyMap<string, ReadonlySet<string>> {
  const schemes = new Map<string, Set<string>>();
  const note = (server: string, uri: string) => {
    const scheme = schemeOf(uri);
    if (scheme !== undefined) schemes.set(scheme, (schemes.get(scheme) ?? new Set()).add(server));
  };
  for (const { server, uri } of routes.values()) note(server, uri);
  for (const { server, prefix } of templates) note(server.name, prefix);
  return schemes;
}

function schemeOf(uri: string): string | undefined {
  return /^([a-z][a-z0-9+.-]*):/i.exec(uri)?.[1]?.toLowerCase();
}

/** The servers whose best template says most of the address. */
function findByTemplate(
  uri: string,
  templates: readonly Template[],
  schemes: ReadonlyMap<string, ReadonlySet<string>>,
): ServerDefinition[] {
  const others = schemes.get(schemeOf(uri) ?? '') ?? new Set();
  let best = -1;
  let servers = new Set<ServerDefinition>();
  for (const { server, text, prefix } of templates) {
    const saysScheme = schemeOf(prefix) !== undefined;
    if (!saysScheme && [...others].some((name) => name !== server.name)) continue;
    // A template itself is named where its words are completed.
    const said = text === uri ? Number.POSITIVE_INFINITY : prefix.length;
    if (said < best || !fitsTemplate(uri, text)) continue;
    if (said > best) servers = new Set();
    best = said;
    servers.add(server);
  }
  return [...servers];
}

/** Where only one server has resources at all, an address can be of no other. */
function onlyOne(offers: readonly Listed[]): ServerDefinition[] {
  const having = offers.filter(({ offer }) => offer?.hasResources).map(({ server }) => server);
  return having.length === 1 ? having : [];
}
