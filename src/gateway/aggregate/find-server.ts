import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Listed } from '../../upstreams/catalog/catalog.ts';
import { fitsTemplate, named, templateOf } from '../../upstreams/catalog/merge.ts';
import { splitName } from '../../upstreams/catalog/tool-names.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { ForAll } from './for-all.ts';

export interface Found {
  readonly server: ServerDefinition;
  /** The name or URI on the server's side. */
  readonly name: string;
}

const shortened = 64;

/** Which server a public tool or prompt name belongs to. */
export async function findNamed(
  exchange: ForAll,
  name: string,
  what: 'tools' | 'prompts',
  look: () => Promise<readonly Listed[]>,
): Promise<Found | undefined> {
  if (name.length === shortened) {
    for (const { server, offer } of await look()) {
      const entry = named(server.name, offer?.[what] ?? []).find((each) => each.publicName === name);
      if (entry !== undefined) return { server, name: entry.name };
    }
  }
  const parts = splitName(name);
  const server = exchange.available.find((each) => each.name === parts?.server);
  return server === undefined || parts === undefined ? undefined : { server, name: parts.name };
}

const urisInOneTurn = 50;

/** The same for many, with room for others in between. Stops when nobody waits for it any more. */
export async function findUris(
  exchange: ForAll,
  uris: readonly string[],
  routes: ReadonlyMap<string, { readonly server: string; readonly uri: string }>,
  look: () => Promise<readonly Listed[]>,
): Promise<Map<string, Found>> {
  const all = new Map<string, Found>();
  for (const [index, uri] of uris.entries()) {
    const found = await findUri(exchange, uri, routes, look);
    if (found !== undefined) all.set(uri, found);
    if (index % urisInOneTurn < urisInOneTurn - 1) continue;
    await nextTurn();
    if (exchange.channel.isGone()) break;
  }
  return all;
}

/** Which server a URI belongs to: one that lists it, else one with a template it fits. */
async function findUri(
  exchange: ForAll,
  uri: string,
  routes: ReadonlyMap<string, { readonly server: string; readonly uri: string }>,
  look: () => Promise<readonly Listed[]>,
): Promise<Found | undefined> {
  const route = routes.get(uri);
  const listed = exchange.available.find((each) => each.name === route?.server);
  if (route !== undefined && listed !== undefined) return { server: listed, name: route.uri };
  const offers = await look();
  for (const { server, offer } of offers) {
    if (offer?.templates.some((text) => fitsTemplate(uri, templateOf(text) ?? ''))) return { server, name: uri };
  }
  const only = offers.filter(({ offer }) => offer?.hasResources);
  return only.length === 1 && only[0] !== undefined ? { server: only[0].server, name: uri } : undefined;
}
