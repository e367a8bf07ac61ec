import type { Reply } from '../../protocol/channel.ts';
import type { Session } from '../../sessions/session.ts';
import type { Listed } from '../../upstreams/catalog/catalog.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Prepared } from '../exchange.ts';
import type { Found } from '../stages/route-tool.ts';
import { gatherResources, gatherTemplates, listReply, type ResourceList } from './collect-lists.ts';
import { ambiguousUri, type FoundUris, findKnown, findUris, noRoutes, type Routes } from './find-resource.ts';

/** The resources of all servers, as each session is shown them. */
interface Resources {
  list(exchange: Prepared): Promise<Reply>;
  listTemplates(exchange: Prepared): Promise<Reply>;
  /** The server that an address belongs to; throws where several may have it. */
  find(exchange: Prepared, uri: string): Promise<Found | undefined>;
  /** However many they are, the servers are asked for their resources once. */
  findAll(exchange: Prepared, uris: readonly string[]): Promise<FoundUris>;
}

interface ResourcesParts {
  look(exchange: Prepared): Promise<Listed[]>;
  askOf(exchange: Prepared): (server: ServerDefinition) => AskServer;
}

/** What a session was told about resources, and when. */
interface Told {
  readonly routes: Routes;
  readonly at: number;
}

/** So long what servers listed stands for what they list. */
const routesMs = 10_000;

export function createResources({ look, askOf }: ResourcesParts): Resources {
  /** What each session was last told about resources, where it stands; a narrowed one has another record. */
  const told = new WeakMap<Session, Told>();

  async function gatherAll(exchange: Prepared, offers: readonly Listed[]): Promise<ResourceList> {
    const before = told.get(exchange.session)?.routes ?? noRoutes;
    const list = await gatherResources(offers, askOf(exchange), before);
    told.set(exchange.session, { routes: list.routes, at: performance.now() });
    return list;
  }

  async function findAll(exchange: Prepared, uris: readonly string[]): Promise<FoundUris> {
    const known = told.get(exchange.session);
    const routes = known?.routes ?? noRoutes;
    const { channel } = exchange;
    // An address with the name of its server needs nobody else; one that was listed a moment ago is known.
    const recent = isFresh(known) ? routes : noRoutes;
    const found = new Map(uris.flatMap((uri) => foundAt(uri, findKnown(exchange, uri, recent))));
    if (found.size === uris.length) return { found, ambiguous: new Map() };
    const offers = await look(exchange);
    const areListed = uris.every((uri) => found.has(uri) || routes.plain.has(uri));
    if (isFresh(known) || areListed || channel.isGone()) {
      const all = await findUris(exchange, uris, routes, offers);
      // What nobody has may be new.
      if (all.found.size + all.ambiguous.size === uris.length || channel.isGone()) return all;
    }
    return findUris(exchange, uris, (await gatherAll(exchange, offers)).routes, offers);
  }

  return {
    async list(exchange) {
      return listReply(exchange, 'resources', await gatherAll(exchange, await look(exchange)));
    },
    // The client expands templates itself: they name their server where an address from a list would.
    async listTemplates(exchange) {
      const offers = await look(exchange);
      const known = told.get(exchange.session);
      const { routes } = isFresh(known) ? known : await gatherAll(exchange, offers);
      return listReply(exchange, 'resourceTemplates', gatherTemplates(offers, routes));
    },
    async find(exchange, uri) {
      const { found, ambiguous } = await findAll(exchange, [uri]);
      const claimants = ambiguous.get(uri);
      if (claimants !== undefined) throw ambiguousUri(uri, claimants);
      return found.get(uri);
    },
    findAll,
  };
}

function foundAt(uri: string, found: Found | undefined): [string, Found][] {
  return found === undefined ? [] : [[uri, found]];
}

function isFresh(known: Told | undefined): known is Told {
  return known !== undefined && performance.now() - known.at < routesMs;
}
