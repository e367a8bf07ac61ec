import { AmbitError } from '../../errors.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { applyEdits, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readStringValue } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { ServerListing } from '../../upstreams/catalog/catalog.ts';
import { isShortName, readEntryName, splitPublicName, toPublicName } from '../../upstreams/catalog/list-entries.ts';
import type { InProcessServer, ServerDefinition } from '../../upstreams/definition.ts';
import type { Seals } from '../../upstreams/links/relay/seals.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { Aggregate } from '../routing/aggregate.ts';
import { findOwner, needsOwner } from '../routing/find-owner.ts';
import { inboxUri } from '../routing/own-inbox.ts';
import type { OwnToolList } from '../routing/own-server.ts';
import type { ServerCallers } from '../routing/server-callers.ts';
import { type AroundStage, addToExchange, type Next } from '../stage.ts';

export interface RouteTarget {
  readonly server: ServerDefinition;
  /** The name or URI on the server's side. */
  readonly name: string;
}

export interface RouteParts {
  readonly ownServer: InProcessServer;
  readonly ownTools: OwnToolList;
  readonly resolution: ServerResolution;
  readonly aggregate: Aggregate;
  readonly seals: Seals;
  readonly serverCallers: ServerCallers;
}

type RouteResult = Pick<PreparedExchange, 'upstream' | 'outgoing' | 'edits'>;

/**
 * Finds the server of a request at the address of all servers: by the public name of a tool or prompt, which it replaces
 * by the server's own, by the id of a task, or by the capability that a method belongs to. In the result, it renames
 * resources as they are renamed in lists.
 */
export function routeTool(parts: RouteParts): AroundStage<PreparedExchange, unknown, FinalReply> {
  const { ownServer, ownTools, resolution, aggregate } = parts;
  /** A name that begins with `session_` and has no `__` is Ambit's own, even if there is no such tool. */
  const isOwnTool = (name: string) =>
    ownTools.has(name) || (name.startsWith('session_') && splitPublicName(name) === undefined);

  function routeToServer(
    exchange: PreparedExchange,
    name: string,
    found: RouteTarget | undefined,
  ): RouteResult & { readonly upstream: ServerDefinition } {
    const { message, edits, entry, session } = exchange;
    const member = findMember(message.params?.shape, 'name');
    if (found === undefined || member === undefined) {
      // The reason goes to the journal only, not to the caller.
      const meant = resolution.find(session, splitPublicName(name)?.server ?? '');
      if (meant.server === undefined) entry.rule = meant.removal?.rule;
      throw unknownNameError(message.method, name);
    }
    entry.upstream = found.server.name;
    entry.upstreamName = found.name;
    const renamed = [...edits, replaceValue(member, JSON.stringify(found.name))];
    return { upstream: found.server, outgoing: readMessage(applyEdits(message.bytes, renamed)), edits: [] };
  }

  /** Finds a tool that is called without the name of its server, as apps do. A name with "__" always names one. */
  async function findBareTool(exchange: PreparedExchange, name: string): Promise<RouteTarget | undefined> {
    const isBare = exchange.message.method === 'tools/call' && name !== '' && splitPublicName(name) === undefined;
    return isBare ? aggregate.findAppTool(exchange, name) : undefined;
  }

  async function callServer<Here extends PreparedExchange>(
    exchange: Here,
    name: string,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply> {
    const what = exchange.message.method === 'tools/call' ? 'tools' : 'prompts';
    const named = findNamed(exchange, name, what, aggregate.fetchLists);
    const found = (named instanceof Promise ? await named : named) ?? (await findBareTool(exchange, name));
    const routed = routeToServer(exchange, name, found);
    const reply = await next(addToExchange(exchange, routed));
    return aggregate.renameResources(exchange, routed.upstream, reply);
  }

  async function callOwner<Here extends PreparedExchange>(
    exchange: Here,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply> {
    const upstream = await findOwner(exchange, parts);
    if (upstream === undefined) return next(exchange);
    const { outgoing, edits, entry } = exchange;
    entry.upstream = upstream.name;
    const reply = await next(addToExchange(exchange, { upstream, outgoing, edits }));
    return aggregate.renameResources(exchange, upstream, reply);
  }

  return {
    name: 'routeTool',
    refuses: ['SERVER_NOT_AVAILABLE', 'REQUEST_INVALID', -32601, -32602, -32021],
    finds: 'server',
    around(exchange, next) {
      const { message, upstream, outgoing, edits, entry } = exchange;
      const { kind, method } = message;
      const isNamed = kind === 'request' && (method === 'tools/call' || method === 'prompts/get');
      if (upstream !== undefined) return next(exchange);
      if (kind === 'request' && isAboutInbox(message)) {
        entry.upstream = ownServer.name;
        return next(addToExchange(exchange, { upstream: ownServer, outgoing, edits }));
      }
      if (!isNamed) return needsOwner(message) ? callOwner(exchange, next) : next(exchange);
      const name = readStringValue(message.bytes, findMember(message.params?.shape, 'name')) ?? '';
      if (method !== 'tools/call' || !isOwnTool(name)) return callServer(exchange, name, next);
      entry.upstream = ownServer.name;
      return next(addToExchange(exchange, { upstream: ownServer, outgoing, edits }));
    },
  };
}

/** Tells whether a request reads the inbox of the session, or changes a subscription to it. */
function isAboutInbox({ method, bytes, params }: Message): boolean {
  if (!/^resources\/(?:read|subscribe|unsubscribe)$/.test(method)) return false;
  return readStringValue(bytes, findMember(params?.shape, 'uri')) === inboxUri;
}

function unknownNameError(method: string, name: string): AmbitError {
  return new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `No server of this session has "${name.slice(0, 100)}".`,
    hint: `Use a name from ${method === 'tools/call' ? 'tools' : 'prompts'}/list. Names have the form server__name.`,
  });
}

/**
 * Finds the server that a public tool or prompt name belongs to. The name of the server is always its beginning. Only a
 * short name needs the list of that server.
 */
export function findNamed(
  exchange: PreparedExchange,
  name: string,
  what: 'tools' | 'prompts',
  fetchLists: Aggregate['fetchLists'],
): RouteTarget | undefined | Promise<RouteTarget | undefined> {
  const parts = splitPublicName(name);
  const server = exchange.available.find((each) => each.name === parts?.server);
  if (server === undefined || parts === undefined) return undefined;
  const asReal = { server, name: parts.name };
  if (!isShortName(name)) return asReal;
  return fetchLists(exchange, [server]).then(([listed]) => {
    const real = listed === undefined ? undefined : findRealName(listed, what, name);
    return real === undefined ? asReal : { server, name: real };
  });
}

/** Finds the real name behind a short one. A withheld tool is found too, so that its refusal can say why. */
function findRealName({ server, offer, withheld }: ServerListing, what: 'tools' | 'prompts', name: string) {
  const isMeant = (real: string | undefined) => real !== undefined && toPublicName(server.name, real) === name;
  for (const text of offer?.[what] ?? []) {
    const real = readEntryName(text);
    if (isMeant(real)) return real;
  }
  return what === 'tools' ? withheld.find(isMeant) : undefined;
}
