import type { Reply } from '../../protocol/channel.ts';
import type { Session } from '../../sessions/session.ts';
import type { Listed } from '../../upstreams/catalog/catalog.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Prepared } from '../exchange.ts';
import type { RouteTarget } from '../stages/route-tool.ts';
import { collectResources, collectTemplates, createListReply, type ResourceList } from './collect-lists.ts';
import {
  ambiguousUriError,
  type FoundUris,
  findListed,
  findUris,
  noResourceRoutes,
  type ResourceRoutes,
} from './find-resource.ts';

/** The resources of all servers, as each session is shown them. */
interface Resources {
  list(exchange: Prepared): Promise<Reply>;
  listTemplates(exchange: Prepared): Promise<Reply>;
  /** The server that an address belongs to; throws where several may have it. */
  find(exchange: Prepared, uri: string): Promise<RouteTarget | undefined>;
  /** However many they are, the servers are asked for their resources once. */
  findAll(exchange: Prepared, uris: readonly string[]): Promise<FoundUris>;
}

interface ResourcesParts {
  fetchLists(exchange: Prepared): Promise<Listed[]>;
  askOf(exchange: Prepared): (server: ServerDefinition) => AskServer;
}

/** What a session was told about resources, and when. */
interface KnownRoutes {
  readonly routes: ResourceRoutes;
  readonly at: number;
}

/** So long what servers listed stands for what they list. */
const routesTtlMs = 10_000;

export function createResources({ fetchLists, askOf }: ResourcesParts): Resources {
  /** What each session was last told about resources, where it stands; a narrowed one has another record. */
  const knownRoutes = new WeakMap<Session, KnownRoutes>();

  async function collectAll(exchange: Prepared, offers: readonly Listed[]): Promise<ResourceList> {
    const before = knownRoutes.get(exchange.session)?.routes ?? noResourceRoutes;
    const list = await collectResources(offers, askOf(exchange), before);
    knownRoutes.set(exchange.session, { routes: list.routes, at: performance.now() });
    return list;
  }

  async function findAll(exchange: Prepared, uris: readonly string[]): Promise<FoundUris> {
    const known = knownRoutes.get(exchange.session);
    const routes = known?.routes ?? noResourceRoutes;
    const { channel } = exchange;
    // An address with the name of its server needs nobody else; one that was listed a moment ago is known.
    const recent = isFresh(known) ? routes : noResourceRoutes;
    const found = new Map(uris.flatMap((uri) => toEntries(uri, findListed(exchange, uri, recent))));
    if (found.size === uris.length) return { found, ambiguous: new Map() };
    const offers = await fetchLists(exchange);
    const areListed = uris.every((uri) => found.has(uri) || routes.plain.has(uri));
    if (isFresh(known) || areListed || channel.isGone()) {
      const all = await findUris(exchange, uris, routes, offers);
      // What nobody has may be new.
      if (all.found.size + all.ambiguous.size === uris.length || channel.isGone()) return all;
    }
    return findUris(exchange, uris, (await collectAll(exchange, offers)).routes, offers);
  }

  return {
    async list(exchange) {
      return createListReply(exchange, 'resources', await collectAll(exchange, await fetchLists(exchange)));
    },
    // The client expands templates itself: they name their server where an address from a list would.
    async listTemplates(exchange) {
      const offers = await fetchLists(exchange);
      const known = knownRoutes.get(exchange.session);
      const { routes } = isFresh(known) ? known : await collectAll(exchange, offers);
      return createListReply(exchange, 'resourceTemplates', collectTemplates(offers, routes));
    },
    async find(exchange, uri) {
      const { found, ambiguous } = await findAll(exchange, [uri]);
      const claimants = ambiguous.get(uri);
      if (claimants !== undefined) throw ambiguousUriError(uri, claimants);
      return found.get(uri);
    },
    findAll,
  };
}

function toEntries(uri: string, found: RouteTarget | undefined): [string, RouteTarget][] {
  return found === undefined ? [] : [[uri, found]];
}

function isFresh(known: KnownRoutes | undefined): known is KnownRoutes {
  return known !== undefined && performance.now() - known.at < routesTtlMs;
}
