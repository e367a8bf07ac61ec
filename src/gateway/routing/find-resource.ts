import { setImmediate as nextTurn } from 'node:timers/promises';
import { AmbitError } from '../../errors.ts';
import type { Listed } from '../../upstreams/catalog/catalog.ts';
import type { UriTemplate } from '../../upstreams/catalog/uri-template.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Prepared } from '../exchange.ts';
import type { RouteTarget } from '../stages/route-tool.ts';
import {
  type ClaimsByServer,
  findClaimants,
  findSchemeUsers,
  findTemplates,
  mergeClaims,
  readNamedUri,
  readOrigin,
  type UriClaims,
} from './resource-addresses.ts';

/** The work that one request may make, with turns for others in between. */
interface WorkBudget {
  /** Throws when it is more than one request may make. */
  spend(steps: number): void;
  /** Lets others have a turn, where enough has been done since the last one. */
  yieldTurn(): Promise<void> | undefined;
}

/** A few milliseconds. */
const stepsPerTurn = 500_000;

const maxSteps = 50_000_000;

/** The resource addresses that servers list. */
export interface ResourceRoutes {
  /** By the address that clients are shown, where it names no server: the name of the only server that it can be of. */
  readonly plain: ReadonlyMap<string, string>;
  /** By the name of the server. */
  readonly claims: ReadonlyMap<string, UriClaims>;
}

/** Nobody has been asked yet. */
export const noResourceRoutes: ResourceRoutes = { plain: new Map(), claims: new Map() };

export interface FoundUris {
  readonly found: ReadonlyMap<string, RouteTarget>;
  /** Addresses that several servers may have, each with the names of these servers. */
  readonly ambiguous: ReadonlyMap<string, readonly string[]>;
}

interface SearchContext {
  readonly routes: ResourceRoutes;
  readonly offers: readonly Listed[];
  readonly claims: ClaimsByServer;
  readonly budget: WorkBudget;
}

/** The least number of steps that one address and one template cost. */
const [stepsForUri, stepsForTemplate] = [500, 10];

/**
 * Which server each URI belongs to, with room for others in between. Stops when nobody waits for it any more, and refuses
 * what takes too much work. It belongs
 * to the only server that uses its scheme and authority, if that server lists it or has a template for it. Where several
 * use them, the address must name the server: else one server could read what is asked of another by saying more of the
 * address, or by being asked first.
 */
export async function findUris(
  exchange: Prepared,
  uris: readonly string[],
  routes: ResourceRoutes,
  offers: readonly Listed[],
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

/** One that names the server it is meant for, or that clients are shown as the only server's that can have it. */
export function findListed({ available }: Prepared, uri: string, routes: ResourceRoutes): RouteTarget | undefined {
  const named = readNamedUri(available, uri);
  const name = routes.plain.get(uri);
  const server = named === undefined ? available.find((each) => each.name === name) : named.server;
  return server === undefined ? undefined : { server, name: named?.uri ?? uri };
}

/** The refusal of an address that several servers may have. The rest of an address may be a secret, and errors are kept. */
export function ambiguousUriError(uri: string, servers: readonly string[]): AmbitError {
  const { scheme, authority } = readOrigin(uri);
  const start = authority === '' ? `${scheme}:` : `${scheme}://${authority}`;
  return new AmbitError('REQUEST_INVALID', {
    what: `Several servers use addresses that start with "${start.slice(0, 100)}": ${servers.join(', ')}.`,
    hint: `Write "ambit+NAME:" in front of the address, as in "ambit+${servers[0]}:…", or take the address from resources/list.`,
  });
}

/** The servers that an address without the name of one may be of. */
async function findUnnamed(uri: string, known: SearchContext): Promise<readonly ServerDefinition[]> {
  const { routes, offers, claims, budget } = known;
  const origin = readOrigin(uri);
  const claimants = findClaimants(claims, origin);
  if (claimants.length > 1) return offers.map(({ server }) => server).filter(({ name }) => claimants.includes(name));
  const users = findSchemeUsers(claims, origin.scheme);
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
    // A template itself is named where its words are completed.
    if (uri === template.text) return true;
    const { fits, steps } = template.compare(uri);
    if (fits) return true;
    budget.spend(stepsForTemplate + steps);
    await budget.yieldTurn();
  }
  return false;
}

/** Finds the only server that has resources. A server whose lists are unknown may have some, so then there is no answer. */
function findOnlyServer(offers: readonly Listed[]): ServerDefinition[] {
  if (offers.some(({ offer }) => offer === undefined)) return [];
  const having = offers.filter(({ offer }) => offer?.hasResources).map(({ server }) => server);
  return having.length === 1 ? having : [];
}

/** The work of comparing addresses with templates: clients write the ones and servers the others. */
function createWorkBudget(): WorkBudget {
  let spent = 0;
  let sinceTurn = 0;
  return {
    spend(steps) {
      spent += steps;
      sinceTurn += steps;
      if (spent <= maxSteps) return;
      throw new AmbitError('OVERLOADED', {
        what: 'So many and so long addresses are not compared with the templates of the servers in one request.',
        hint: 'Name fewer addresses at a time, or write "ambit+NAME:" with the name of its server in front of each.',
      });
    },
    yieldTurn() {
      if (sinceTurn < stepsPerTurn) return undefined;
      sinceTurn = 0;
      return nextTurn();
    },
  };
}
