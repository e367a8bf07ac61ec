import { withTimeout } from '../../lib/async/timeout.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { composeResult } from '../../protocol/compose-message.ts';
import { findMember, readStringValue } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import type { PageCursors } from '../../stores/page-cursors.ts';
import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import {
  readTemplate,
  readUri,
  replaceAppUris,
  replaceTemplate,
  replaceUri,
  toCatalogEntries,
} from '../../upstreams/catalog/list-entries.ts';
import { type AskServer, describeFailure, fetchList } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { ResourceRoutes } from './find-resource.ts';
import {
  type AddressSpace,
  collectClaims,
  createPublicUri,
  findAppUris,
  isClaimedByOther,
  mergeClaims,
  readNamedUri,
  readOrigin,
  readTemplateOrigin,
  type UriClaims,
  type UriOrigin,
} from './resource-addresses.ts';

const pageSize = 500;
const cursorName = 'cursor';
const ttlMs = 60_000;

interface UnavailableServer {
  readonly server: string;
  readonly reason: string;
}

export interface CollectedList {
  readonly texts: readonly string[];
  readonly unavailable: readonly UnavailableServer[];
}

export function collectPrompts(listed: readonly ServerListing[]): CollectedList {
  const texts = listed.flatMap(({ server, offer }) =>
    toCatalogEntries(server.name, offer?.prompts ?? []).map((entry) => entry.text),
  );
  return { texts, unavailable: listUnavailable(listed) };
}

/** Collects tools as clients see them. The address of an app is the one that `resources/read` takes. */
export function collectTools(listed: readonly ServerListing[], { claims }: ResourceRoutes): CollectedList {
  const space = createAddressSpace(listed, claims);
  const texts = listed.flatMap(({ server, offer }) => {
    const rename = (uri: string) => createPublicUri(server.name, uri, readOrigin(uri), space);
    return toCatalogEntries(server.name, offer?.tools ?? []).map(({ text }) => replaceAppUris(text, rename));
  });
  return { texts, unavailable: listUnavailable(listed) };
}

export function createAddressSpace(
  listed: readonly ServerListing[],
  lists: ReadonlyMap<string, UriClaims>,
): AddressSpace {
  return { claims: mergeClaims(listed, lists), isOnly: listed.length < 2 };
}

function listUnavailable(listed: readonly ServerListing[]): UnavailableServer[] {
  return listed.flatMap(({ server, reason }) => (reason === undefined ? [] : [{ server: server.name, reason }]));
}

/** Collects templates as clients see them, with the name of the server where it is needed. */
export function collectTemplates(listed: readonly ServerListing[], { claims }: ResourceRoutes): CollectedList {
  const space = createAddressSpace(listed, claims);
  const texts = listed.flatMap(({ server, offer }) =>
    (offer?.templates ?? []).map((text) => {
      const template = readTemplate(text);
      if (template === undefined) return text;
      const shown = createPublicUri(server.name, template, readTemplateOrigin(template), space);
      return shown === template ? text : replaceTemplate(text, shown);
    }),
  );
  return { texts, unavailable: listUnavailable(listed) };
}

const resourcesDeadlineMs = 5000;

export interface ResourceList extends CollectedList {
  readonly routes: ResourceRoutes;
}

interface ServerResources {
  readonly server: ServerDefinition;
  readonly entries: readonly { readonly text: string; readonly uri: string; readonly origin: UriOrigin }[];
  /** Undefined if the server did not answer. */
  readonly claims: UriClaims | undefined;
}

/**
 * Collects the resources of all servers. They belong to the session and are fetched each time. `before` is the last
 * result: a server that does not answer now still uses the same addresses.
 */
export async function collectResources(
  listed: readonly ServerListing[],
  askOf: (server: ServerDefinition) => AskServer,
  before: ResourceRoutes,
): Promise<ResourceList> {
  const unavailable = listUnavailable(listed);
  const lists = await Promise.all(
    listed
      .filter(({ offer }) => offer?.hasResources)
      .map(async ({ server }) => {
        try {
          return await fetchResources(server, askOf(server));
        } catch (error) {
          unavailable.push({ server: server.name, reason: describeFailure(error) });
          return { server, entries: [], claims: undefined };
        }
      }),
  );
  const claims = new Map<string, UriClaims>();
  for (const { server, claims: now = before.claims.get(server.name) } of lists) {
    if (now !== undefined) claims.set(server.name, now);
  }
  const space = createAddressSpace(listed, claims);
  const plain = new Map<string, string>();
  const texts: string[] = [];
  const addPlain = (server: string, uri: string, origin: UriOrigin) => {
    if (readNamedUri([], uri) === undefined && !isClaimedByOther(space.claims, origin, server)) plain.set(uri, server);
  };
  for (const { server, entries } of lists) {
    for (const { text, uri, origin } of entries) {
      const shown = createPublicUri(server.name, uri, origin, space);
      addPlain(server.name, uri, origin);
      texts.push(shown === uri ? text : replaceUri(text, shown));
    }
  }
  for (const each of listed) {
    for (const uri of findAppUris(each).uris) addPlain(each.server.name, uri, readOrigin(uri));
  }
  return { texts, unavailable, routes: { plain, claims } };
}

async function fetchResources(server: ServerDefinition, ask: AskServer): Promise<ServerResources> {
  const texts = (await withTimeout(fetchList(ask, 'resources/list', 'resources'), resourcesDeadlineMs)) ?? [];
  const entries = texts.flatMap((text) => {
    const uri = readUri(text);
    return uri === undefined ? [] : [{ text, uri, origin: readOrigin(uri) }];
  });
  return { server, entries, claims: collectClaims(entries.map(({ origin }) => origin)) };
}

/** Creates a page of a list that Ambit made. */
export type CreateListReply = (
  exchange: ListRequest,
  member: string,
  list: CollectedList,
) => FinalReply | Promise<FinalReply>;

type ListRequest = Pick<PreparedExchange, 'message' | 'era' | 'server'> & {
  readonly session: Pick<PreparedExchange['session'], 'id'> | undefined;
};

/** Creates the function for one page of a list. Only a list of several pages needs the cursors. */
export function createListPages(cursors: PageCursors): CreateListReply {
  async function createPage(exchange: ListRequest, member: string, list: CollectedList): Promise<FinalReply> {
    const { message, server, session } = exchange;
    const given = findMember(message.params?.shape, cursorName);
    const cursor = readStringValue(message.bytes, given);
    const bindings = ['list', message.method, server, session?.id ?? ''];
    const position = cursor === undefined ? undefined : await cursors.open(cursor, bindings);
    if (given !== undefined && position === undefined) {
      throw new ProtocolError(-32602, 200, 'Invalid cursor: pass nextCursor of the previous page unchanged');
    }
    const from = Number(position ?? 0);
    const isLast = from + pageSize >= list.texts.length;
    const next = isLast ? undefined : await cursors.seal(String(from + pageSize), bindings);
    return composePage(exchange, member, { ...list, texts: list.texts.slice(from, from + pageSize) }, next);
  }

  return (exchange, member, list) => {
    const isWhole =
      list.texts.length <= pageSize && findMember(exchange.message.params?.shape, cursorName) === undefined;
    return isWhole ? composePage(exchange, member, list) : createPage(exchange, member, list);
  };
}

/** Composes a page, with the servers that are missing and why. */
function composePage(
  { message, era }: ListRequest,
  member: string,
  { texts: page, unavailable }: CollectedList,
  next?: string,
): FinalReply {
  const parts = [`${JSON.stringify(member)}:[${page.join(',')}]`];
  if (next !== undefined) parts.push(`"nextCursor":${JSON.stringify(next)}`);
  if (era === 'modern') parts.push(`"resultType":"complete","ttlMs":${ttlMs},"cacheScope":"private"`);
  if (unavailable.length > 0) parts.push(`"_meta":${JSON.stringify({ 'ambit/unavailable': unavailable })}`);
  return createResultReply(message, `{${parts.join(',')}}`);
}

/** Creates the reply with a result, given as JSON text. */
export function createResultReply(message: Message, result: string): Extract<FinalReply, { kind: 'message' }> {
  return { kind: 'message', bytes: composeResult(message.id as string, result), status: 200 };
}
