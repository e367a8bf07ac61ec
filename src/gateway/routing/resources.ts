import type { FinalReply } from '../../protocol/channel.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { RouteTarget } from '../stages/route-tool.ts';
import {
  type CreateListReply,
  collectResources,
  collectTemplates,
  createAddressSpace,
  type ResourceList,
} from './collect-lists.ts';
import {
  ambiguousUriError,
  type FoundUris,
  findListed,
  findUris,
  noResourceRoutes,
  type ResourceRoutes,
} from './find-resource.ts';
import { inboxEntry, type OwnInbox } from './own-inbox.ts';
import { type AddressSpace, addServerName, createPublicUri, isAppUri, readOrigin } from './resource-addresses.ts';

/** The resources of all servers, as each session sees them. */
export interface Resources {
  list(exchange: PreparedExchange): Promise<FinalReply>;
  listTemplates(exchange: PreparedExchange): Promise<FinalReply>;
  /** Finds the server of an address. Throws if several servers may have it. */
  find(exchange: PreparedExchange, uri: string): Promise<RouteTarget | undefined>;
  /** Finds the servers of several addresses and asks each server for its list at most once. */
  findAll(exchange: PreparedExchange, uris: readonly string[]): Promise<FoundUris>;
  /** Returns the addresses that the session was given last. */
  knownRoutes(exchange: PreparedExchange): ResourceRoutes;
  /** Creates the function that turns addresses of a server into those that the session sees. */
  createRenamer(
    exchange: PreparedExchange,
    server: ServerDefinition,
    uris: readonly string[],
  ): Promise<(uri: string) => string>;
}

interface ResourcesParts {
  fetchLists(exchange: PreparedExchange): Promise<ServerListing[]>;
  ask(exchange: PreparedExchange, server: ServerDefinition): AskServer;
  readonly inbox: Pick<OwnInbox, 'isVisible'>;
  readonly createListReply: CreateListReply;
}

/** The last routes that a session was given, and when. */
interface KnownRoutes {
  readonly routes: ResourceRoutes;
  readonly at: number;
}

/** The time for which a list of resources is not fetched again. */
const routesTtlMs = 10_000;

export function createResources({ fetchLists, ask, inbox, createListReply }: ResourcesParts): Resources {
  /** The last routes of each session record. A restricted session has another record. */
  const knownRoutes = new WeakMap<Session, KnownRoutes>();

  async function collectAll(exchange: PreparedExchange, offers: readonly ServerListing[]): Promise<ResourceList> {
    const before = knownRoutes.get(exchange.session)?.routes ?? noResourceRoutes;
    const list = await collectResources(offers, (server) => ask(exchange, server), before);
    knownRoutes.set(exchange.session, { routes: list.routes, at: performance.now() });
    return list;
  }

  async function findAll(exchange: PreparedExchange, uris: readonly string[]): Promise<FoundUris> {
    const known = knownRoutes.get(exchange.session);
    const routes = known?.routes ?? noResourceRoutes;
    const { channel } = exchange;
    // An address that names its server, or was listed a moment ago, needs no requests.
    const recent = isFresh(known) ? routes : noResourceRoutes;
    const found = new Map(uris.flatMap((uri) => toEntries(uri, findListed(exchange, uri, recent))));
    if (found.size === uris.length) return { found, ambiguous: new Map() };
    const offers = await fetchLists(exchange);
    const areListed = uris.every((uri) => found.has(uri) || routes.plain.has(uri));
    if (isFresh(known) || areListed || channel.isGone()) {
      const all = await findUris(exchange, uris, routes, offers);
      // An address that was not found may be new.
      if (all.found.size + all.ambiguous.size === uris.length || channel.isGone()) return all;
    }
    return findUris(exchange, uris, (await collectAll(exchange, offers)).routes, offers);
  }

  /** Collects the claims of all servers, which only addresses other than those of apps need. */
  async function collectSpace(exchange: PreparedExchange, uris: readonly string[]): Promise<AddressSpace> {
    const isOnly = exchange.available.length < 2;
    if (isOnly || uris.every(isAppUri)) return { claims: new Map(), isOnly };
    const offers = await fetchLists(exchange);
    const routes = knownRoutes.get(exchange.session)?.routes ?? (await collectAll(exchange, offers)).routes;
    return createAddressSpace(offers, routes.claims);
  }

  return {
    knownRoutes: ({ session }) => knownRoutes.get(session)?.routes ?? noResourceRoutes,
    async createRenamer(exchange, server, uris) {
      const space = await collectSpace(exchange, uris).catch(() => undefined);
      // An address with the name of its server is always right.
      if (space === undefined) return (uri) => addServerName(server.name, uri);
      return (uri) => createPublicUri(server.name, uri, readOrigin(uri), space);
    },
    async list(exchange) {
      const { texts, unavailable } = await collectAll(exchange, await fetchLists(exchange));
      const own = inbox.isVisible(exchange.session) ? [inboxEntry] : [];
      return createListReply(exchange, 'resources', { texts: [...texts, ...own], unavailable });
    },
    // The client expands templates itself, so they name their server where listed addresses do.
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
