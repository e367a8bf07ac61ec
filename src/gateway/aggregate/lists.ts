import type { Catalog, Listed, Looking } from '../../upstreams/catalog/catalog.ts';
import { named, uriOf, withUri } from '../../upstreams/catalog/merge.ts';
import { type AskServer, listAll, reasonOf } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Reply } from '../../wire/channel.ts';
import { resultMessage } from '../../wire/compose.ts';
import { memberOf, stringAt } from '../../wire/scan.ts';
import { within } from '../../within.ts';
import type { ForAll } from './for-all.ts';

const pageSize = 500;
const ttlMs = 60_000;

export interface Unavailable {
  readonly server: string;
  readonly reason: string;
}

export interface Gathered {
  readonly texts: readonly string[];
  readonly unavailable: readonly Unavailable[];
}

/** What each server offers, at once and within the deadline. */
export function lookAtAll(
  exchange: ForAll,
  catalog: Catalog,
  lookingFor: (server: ServerDefinition) => Looking,
): Promise<Listed[]> {
  return Promise.all(exchange.available.map((server) => catalog.look(server, lookingFor(server))));
}

export function gather(listed: readonly Listed[], what: 'tools' | 'prompts' | 'templates'): Gathered {
  const texts = listed.flatMap(({ server, offer }) => {
    if (offer === undefined) return [];
    if (what === 'templates') return offer.templates;
    return named(server.name, offer[what]).map((entry) => entry.text);
  });
  return { texts, unavailable: missing(listed) };
}

function missing(listed: readonly Listed[]): Unavailable[] {
  return listed.flatMap(({ server, reason }) => (reason === undefined ? [] : [{ server: server.name, reason }]));
}

const resourcesDeadlineMs = 5000;

export interface ResourceList extends Gathered {
  /** Public URI → the server and its own URI. */
  readonly routes: ReadonlyMap<string, { readonly server: string; readonly uri: string }>;
}

/** Resources are the session's own: they are asked for each time, of the servers that have any. */
export async function gatherResources(
  listed: readonly Listed[],
  askOf: (server: ServerDefinition) => AskServer,
): Promise<ResourceList> {
  const unavailable = missing(listed);
  const lists = await Promise.all(
    listed
      .filter(({ offer }) => offer?.hasResources)
      .map(async ({ server }) => {
        try {
          return {
            server,
            texts: (await within(listAll(askOf(server), 'resources/list', 'resources'), resourcesDeadlineMs)) ?? [],
          };
        } catch (error) {
          unavailable.push({ server: server.name, reason: reasonOf(error) });
          return { server, texts: [] };
        }
      }),
  );
  const routes = new Map<string, { server: string; uri: string }>();
  const texts: string[] = [];
  for (const list of lists) {
    for (const text of list.texts) {
      const uri = uriOf(text);
      if (uri === undefined) continue;
      // A URI that another server has too gets the server's name in front.
      const shown = routes.has(uri) ? `ambit+${list.server.name}:${uri}` : uri;
      routes.set(shown, { server: list.server.name, uri });
      texts.push(shown === uri ? text : withUri(text, shown));
    }
  }
  return { texts, unavailable, routes };
}

/** One page of a list, with what is missing from it and why. */
export function listReply(
  exchange: Pick<ForAll, 'message' | 'era'>,
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
