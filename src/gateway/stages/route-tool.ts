import { AmbitError } from '../../errors.ts';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readStringValue } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import { splitPublicName, toCatalogEntries } from '../../upstreams/catalog/list-entries.ts';
import type { InProcessServer, ServerDefinition } from '../../upstreams/definition.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { Aggregate } from '../routing/aggregate.ts';
import type { OwnToolList } from '../routing/own-server.ts';
import type { BeforeStage } from '../stage.ts';

export interface RouteTarget {
  readonly server: ServerDefinition;
  /** The name or URI on the server's side. */
  readonly name: string;
}

const maxNameLength = 64;

export interface RouteParts {
  readonly ownServer: InProcessServer;
  readonly ownTools: OwnToolList;
  readonly resolution: ServerResolution;
  readonly aggregate: Aggregate;
}

type RouteResult = Pick<PreparedExchange, 'upstream' | 'outgoing' | 'edits'>;

/** Finds the server of a tool or prompt at the address of all servers, and replaces the public name by the server's own. */
export function routeTool(parts: RouteParts): BeforeStage<PreparedExchange, RouteResult | undefined> {
  const { ownServer, ownTools, resolution, aggregate } = parts;
  /** A name that begins with `session_` and has no `__` is Ambit's own, even if there is no such tool. */
  const isOwnTool = (name: string) =>
    ownTools.has(name) || (name.startsWith('session_') && splitPublicName(name) === undefined);

  function routeToServer(exchange: PreparedExchange, name: string, found: RouteTarget | undefined): RouteResult {
    const { message, edits, entry, session } = exchange;
    const member = findMember(message.params?.shape, 'name');
    if (found === undefined || member === undefined) {
      // The reason goes to the journal only, not to the caller.
      const meant = resolution.find(session, splitPublicName(name)?.server ?? '');
      if (meant.server === undefined) entry.rule = meant.removal?.rule;
      throw unknownNameError(message.method, name);
    }
    entry.upstream = found.server.name;
    const renamed = [...edits, replaceValue(member, JSON.stringify(found.name))];
    return { upstream: found.server, outgoing: readMessage(applyEdits(message.bytes, renamed)), edits: [] };
  }

  return {
    name: 'routeTool',
    refuses: ['SERVER_NOT_AVAILABLE'],
    finds: 'server',
    before(exchange) {
      const { message, upstream, outgoing, edits, entry } = exchange;
      const { kind, method } = message;
      const isNamed = kind === 'request' && (method === 'tools/call' || method === 'prompts/get');
      if (upstream !== undefined || !isNamed) return undefined;
      const name = readStringValue(message.bytes, findMember(message.params?.shape, 'name')) ?? '';
      if (method === 'tools/call' && isOwnTool(name)) {
        entry.upstream = ownServer.name;
        return { upstream: ownServer, outgoing, edits };
      }
      const what = method === 'tools/call' ? 'tools' : 'prompts';
      const found = findNamed(exchange, name, what, () => aggregate.fetchLists(exchange));
      return found instanceof Promise
        ? found.then((late) => routeToServer(exchange, name, late))
        : routeToServer(exchange, name, found);
    },
  };
}

function unknownNameError(method: string, name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `No server of this session has "${name.slice(0, 100)}".`,
    hint: `Use a name from ${method === 'tools/call' ? 'tools' : 'prompts'}/list. Names have the form server__name.`,
  });
}

/** Finds the server that a public tool or prompt name belongs to. Only a name that was shortened needs the lists. */
export function findNamed(
  exchange: PreparedExchange,
  name: string,
  what: 'tools' | 'prompts',
  fetchLists: () => Promise<readonly ServerListing[]>,
): RouteTarget | undefined | Promise<RouteTarget | undefined> {
  if (name.length !== maxNameLength) return findPrefixed(exchange, name);
  return fetchLists().then((lists) => {
    for (const { server, offer } of lists) {
      const entry = toCatalogEntries(server.name, offer?.[what] ?? []).find((each) => each.publicName === name);
      if (entry !== undefined) return { server, name: entry.name };
    }
    return findPrefixed(exchange, name);
  });
}

function findPrefixed(exchange: PreparedExchange, name: string): RouteTarget | undefined {
  const parts = splitPublicName(name);
  const server = exchange.available.find((each) => each.name === parts?.server);
  return server === undefined || parts === undefined ? undefined : { server, name: parts.name };
}
