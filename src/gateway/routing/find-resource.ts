import { setImmediate as nextTurn } from 'node:timers/promises';
import { AmbitError } from '../../errors.ts';
import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import type { UriTemplate } from '../../upstreams/catalog/uri-template.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { RouteTarget } from '../stages/route-tool.ts';
import {
  type ClaimsByServer,
  findClaimants,
  findTemplates,
  mergeClaims,
  readNamedUri,
  readOrigin,
  type UriClaims,
} from './resource-addresses.ts';

/** Limits the work of one request and lets others run in between. */
interface WorkBudget {
  /** Throws if the request takes too much work. */
  spend(steps: number): void;
  /** Lets others run if enough work was done since the last time. */
  yieldTurn(): Promise<void> | undefined;
}

/** About a few milliseconds of work. */
const stepsPerTurn = 500_000;
const maxSteps = 50_000_000;

/** The resource addresses that servers list. */
export interface ResourceRoutes {
  /** The only server that can have an address, by the address that clients see. */
  readonly plain: ReadonlyMap<string, string>;
  /** The claims by the name of the server. */
  readonly claims: ReadonlyMap<string, UriClaims>;
}

/** The routes before any server was asked. */
export const noResourceRoutes: ResourceRoutes = { plain: new Map(), claims: new Map() };

export interface FoundUris {
  readonly found: ReadonlyMap<string, RouteTarget>;
  /** The addresses that several servers may have, with the names of these servers. */
  readonly ambiguous: ReadonlyMap<string, readonly string[]>;
}

interface SearchContext {
  readonly routes: ResourceRoutes;
  readonly offers: readonly ServerListing[];
  readonly claims: ClaimsByServer;
  readonly budget: WorkBudget;
}

/** The minimum steps for one address and one template. */
const [stepsForUri, stepsForTemplate] = [500, 10];

/**
 * Finds the server of each URI. Stops when the client has gone, and refuses what takes too much work. A URI belongs to
 * the only server that uses its scheme and authority, if that server lists it or has a template for it. If several
 * servers use them, the URI must name the server: otherwise one server could get requests that are meant for another.
 */
export async function findUris(
  exchange: PreparedExchange,
  uris: readonly string[],
  routes: ResourceRoutes,
  offers: readonly ServerListing[],
): Promise<FoundUris> {
  const known: SearchContext = {
    routes,
    offers,
    claims: mergeClaims(offers, routes.claims),
    budget: createWorkBudget(),
  };
  const found = new Map<string, RouteTarget>();
  const ambiguous = new Map<string, readonly string[]>();
  for (const uri of uris) {
    const named = readNamedUri(exchange.available, uri);
    const servers = named === undefined ? await findUnnamed(uri, known) : [named.server];
    const [server] = servers;
    if (servers.length > 1)
      ambiguous.set(
        uri,
        servers.map((each) => each?.name ?? ''),
      );
    else if (server !== undefined) found.set(uri, { server, name: named?.uri ?? uri });
    known.budget.spend(stepsForUri);
    await known.budget.yieldTurn();
    if (exchange.channel.isGone()) break;
  }
  return { found, ambiguous };
}

/** Finds the server of a URI that names it or that was listed as one server's only. */
export function findListed(
  { available }: PreparedExchange,
  uri: string,
  routes: ResourceRoutes,
): RouteTarget | undefined {
  const named = readNamedUri(available, uri);
  const name = routes.plain.get(uri);
  const server = named === undefined ? available.find((each) => each.name === name) : named.server;
  return server === undefined ? undefined : { server, name: named?.uri ?? uri };
}

/** Creates the error for an ambiguous address, without the part of it that may be secret. */
export function ambiguousUriError(uri: string, servers: readonly string[]): AmbitError {
  const { scheme, authority } = readOrigin(uri);
  const start = authority === '' ? `${scheme}:` : `${scheme}://${authority}`;
  return new AmbitError('REQUEST_INVALID', {
    what: `Several servers use addresses that start with "${start.slice(0, 100)}": ${servers.join(', ')}.`,
    hint: `Put "ambit+NAME:" in front of the address, as in "ambit+${servers[0]}:…", or use the address from resources/list.`,
  });
}

/** Finds the servers that may have an address without a server name. */
async function findUnnamed(uri: string, known: SearchContext): Promise<readonly ServerDefinition[]> {
  const { routes, offers, claims, budget } = known;
  const origin = readOrigin(uri);
  const claimants = findClaimants(claims, origin);
  if (claimants.length > 1) return offers.map(({ server }) => server).filter(({ name }) => claimants.includes(name));
  const users = findClaimants(claims, { scheme: origin.scheme, authority: undefined });
  const fitting: ServerDefinition[] = [];
  for (const listed of offers) {
    const { server } = listed;
    const { withScheme, withoutScheme } = findTemplates(listed);
    const isClaimant = claimants.includes(server.name);
    const isOnlyUser = users.every((name) => name === server.name);
    const has =
      (isClaimant && routes.plain.get(uri) === server.name) ||
      (isClaimant && (await fitsTemplate(uri, withScheme, budget))) ||
      (isOnlyUser && (await fitsTemplate(uri, withoutScheme, budget)));
    if (has) fitting.push(server);
  }
  return fitting.length === 0 ? findOnlyServer(offers) : fitting;
}

async function fitsTemplate(uri: string, templates: readonly UriTemplate[], budget: WorkBudget): Promise<boolean> {
  for (const template of templates) {
    // Completion names the template itself.
    if (uri === template.text) return true;
    const { fits, steps } = template.compare(uri);
    if (fits) return true;
    budget.spend(stepsForTemplate + steps);
    await budget.yieldTurn();
  }
  return false;
}

/** Finds the only server with resources. A server with unknown lists may have some, so then there is no answer. */
function findOnlyServer(offers: readonly ServerListing[]): ServerDefinition[] {
  if (offers.some(({ offer }) => offer === undefined)) return [];
  const having = offers.filter(({ offer }) => offer?.hasResources).map(({ server }) => server);
  return having.length === 1 ? having : [];
}

/** The budget for comparing addresses of clients with templates of servers. */
function createWorkBudget(): WorkBudget {
  let spent = 0;
  let sinceTurn = 0;
  return {
    spend(steps) {
      spent += steps;
      sinceTurn += steps;
      if (spent <= maxSteps) return;
      throw new AmbitError('OVERLOADED', {
        what: 'The request has too many or too long addresses to match them with the templates of the servers.',
        hint: 'Send fewer addresses at a time, or put "ambit+NAME:" with the name of the server in front of each.',
      });
    },
    yieldTurn() {
      if (sinceTurn < stepsPerTurn) return undefined;
      sinceTurn = 0;
      return nextTurn();
    },
  };
}
