import { within } from '../../lib/async/within.ts';
import type { Reply } from '../../protocol/channel.ts';
import { resultMessage } from '../../protocol/compose.ts';
import { memberOf, stringAt } from '../../protocol/json/scan.ts';
import type { Catalog, Listed, Looking } from '../../upstreams/catalog/catalog.ts';
import { named, templateOf, uriOf, withTemplate, withUri } from '../../upstreams/catalog/merge.ts';
import { type AskServer, listAll, reasonOf } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Prepared } from '../exchange.ts';
import type { Routes } from './find-resource.ts';
import {
  allClaims,
  type Claims,
  claimsOf,
  type Place,
  placeOf,
  placeOfTemplate,
  publicUri,
} from './resource-addresses.ts';

const pageSize = 500;
const ttlMs = 60_000;

interface Unavailable {
  readonly server: string;
  readonly reason: string;
}

interface Gathered {
  readonly texts: readonly string[];
  readonly unavailable: readonly Unavailable[];
}

/** What each server offers, at once and within the deadline. */
export function lookAtAll(
  exchange: Prepared,
  catalog: Catalog,
  lookingFor: (server: ServerDefinition) => Looking,
): Promise<Listed[]> {
  return Promise.all(exchange.available.map((server) => catalog.look(server, lookingFor(server))));
}

export function gather(listed: readonly Listed[], what: 'tools' | 'prompts'): Gathered {
  const texts = listed.flatMap(({ server, offer }) => {
    if (offer === undefined) return [];
    return named(server.name, offer[what]).map((entry) => entry.text);
  });
  return { texts, unavailable: missing(listed) };
}

function missing(listed: readonly Listed[]): Unavailable[] {
  return listed.flatMap(({ server, reason }) => (reason === undefined ? [] : [{ server: server.name, reason }]));
}

/** Templates as clients are shown them: what they make of one names its server where it must. */
export function gatherTemplates(listed: readonly Listed[], { claims }: Routes): Gathered {
  const all = allClaims(listed, claims);
  const texts = listed.flatMap(({ server, offer }) =>
    (offer?.templates ?? []).map((text) => {
      const template = templateOf(text);
      if (template === undefined) return text;
      const shown = publicUri(server.name, template, placeOfTemplate(template), all);
      return shown === template ? text : withTemplate(text, shown);
    }),
  );
  return { texts, unavailable: missing(listed) };
}

const resourcesDeadlineMs = 5000;

export interface ResourceList extends Gathered {
  readonly routes: Routes;
}

interface ServerList {
  readonly server: ServerDefinition;
  readonly entries: readonly { readonly text: string; readonly uri: string; readonly place: Place }[];
  /** Undefined where the server could not be asked. */
  readonly claims: Claims | undefined;
}

/**
 * Resources are the session's own: they are asked for each time, of the servers that have any. `before` is what they
 * listed the last time: a server that does not answer now still uses the same addresses.
 */
export async function gatherResources(
  listed: readonly Listed[],
  askOf: (server: ServerDefinition) => AskServer,
  before: Routes,
): Promise<ResourceList> {
  const unavailable = missing(listed);
  const lists = await Promise.all(
    listed
      .filter(({ offer }) => offer?.hasResources)
      .map(async ({ server }) => {
        try {
          return await listOf(server, askOf(server));
        } catch (error) {
          unavailable.push({ server: server.name, reason: reasonOf(error) });
          return { server, entries: [], claims: undefined };
        }
      }),
  );
  const claims = new Map<string, Claims>();
  for (const { server, claims: now = before.claims.get(server.name) } of lists) {
    if (now !== undefined) claims.set(server.name, now);
  }
  const all = allClaims(listed, claims);
  const plain = new Map<string, string>();
  const texts: string[] = [];
  for (const { server, entries } of lists) {
    for (const { text, uri, place } of entries) {
      const shown = publicUri(server.name, uri, place, all);
      if (shown === uri) plain.set(uri, server.name);
      texts.push(shown === uri ? text : withUri(text, shown));
    }
  }
  return { texts, unavailable, routes: { plain, claims } };
}

async function listOf(server: ServerDefinition, ask: AskServer): Promise<ServerList> {
  const texts = (await within(listAll(ask, 'resources/list', 'resources'), resourcesDeadlineMs)) ?? [];
  const entries = texts.flatMap((text) => {
    const uri = uriOf(text);
    return uri === undefined ? [] : [{ text, uri, place: placeOf(uri) }];
  });
  return { server, entries, claims: claimsOf(entries.map(({ place }) => place)) };
}

/** One page of a list, with what is missing from it and why. */
export function listReply(
  exchange: Pick<Prepared, 'message' | 'era'>,
  member: string,
  { texts, unavailable }: Gathered,
): Reply {
  const { message } = exchange;
  const cursor = stringAt(message.bytes, memberOf(message.params?.shape, 'cursor'));
  const from = cursor === undefined ? 0 : Number(Buffer.from(cursor, 'base64url').toString()) || 0;
  const page = texts.slice(from, from + pageSize);
  const next = from + pageSize < texts.length ? Buffer.from(String(from + pageSize)).toString('base64url') : undefined;
  const parts = [`${JSON.stringify(member)}:[${page.join(',')}]`];
  if (next !== undefined) parts.push(`"nextCursor":${JSON.stringify(next)}`);
  if (exchange.era === 'modern') parts.push(`"resultType":"complete","ttlMs":${ttlMs},"cacheScope":"private"`);
  if (unavailable.length > 0) parts.push(`"_meta":${JSON.stringify({ 'ambit/unavailable': unavailable })}`);
  return { kind: 'message', bytes: resultMessage(message.id as string, `{${parts.join(',')}}`), status: 200 };
}
