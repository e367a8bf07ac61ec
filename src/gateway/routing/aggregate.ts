import { AmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import { acceptedReply, type FinalReply } from '../../protocol/channel.ts';
import { type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readRawValue, readShape, readStringValue } from '../../protocol/json/scan.ts';
import { applyMessageEdits } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { handshakeVersions } from '../../protocol/versions.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { ToolAccess } from '../../upstreams/access/tool-access.ts';
import type { Catalog, ServerListing } from '../../upstreams/catalog/catalog.ts';
import { describeFailure, fetchList } from '../../upstreams/catalog/offer.ts';
import type { InProcessServer, ServerDefinition } from '../../upstreams/definition.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import { capabilitiesKey } from '../../upstreams/links/handshake.ts';
import { createOwnCall } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import type { Seals } from '../../upstreams/links/relay/seals.ts';
import { allServers, type PreparedExchange } from '../exchange.ts';
import type { TransportStore } from '../sessions/transport-store.ts';
import { filterTools } from '../stages/enforce-tool-rules.ts';
import { findNamed, type RouteTarget } from '../stages/route-tool.ts';
import { createShownApps, findAppTool, type ShownApps } from './app-tools.ts';
import {
  type CollectedList,
  type CreateListReply,
  collectPrompts,
  collectTools,
  createResultReply,
} from './collect-lists.ts';
import { type CompositeLink, createCompositeLink } from './composite-link.ts';
import { askForTasks } from './find-owner.ts';
import { createListenStreams, type ListenStreams } from './listen-streams.ts';
import { listenToAll } from './listen-to-all.ts';
import type { OwnInbox } from './own-inbox.ts';
import {
  discoverAll,
  findRelayedExtensions,
  initializeAll,
  type KnownCapabilities,
  mergeExtensions,
  type OwnToolList,
} from './own-server.ts';
import { findResourceUris, findUris, type ResourceUri, replaceUris } from './rename-resources.ts';
import { isAppUri } from './resource-addresses.ts';
import { createResources, type Resources } from './resources.ts';
import { changesSubscription, type SendToServer } from './send-to-server.ts';
import type { ServerCallers } from './server-callers.ts';

/** The time in which a server must list its tasks. */
const tasksDeadlineMs = 5000;

interface AggregateParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly catalog: Catalog;
  readonly resolution: ServerResolution;
  readonly tools: ToolAccess;
  readonly saveTransport: TransportStore['save'];
  readonly ownTools: OwnToolList;
  readonly ownServer: InProcessServer;
  readonly inbox: OwnInbox;
  readonly serverCallers: ServerCallers;
  readonly seals: Seals;
  readonly send: SendToServer;
  readonly createListReply: CreateListReply;
}

/** Many servers as one: their lists, resources and listen streams. Calls of tools are routed before they come here. */
export interface Aggregate extends Pick<ListenStreams, 'announceChange' | 'endSession'> {
  request(exchange: PreparedExchange): Promise<FinalReply>;
  notify(exchange: PreparedExchange): FinalReply;
  /** Fetches the lists of these servers, or of each server that the session may use. */
  fetchLists(exchange: PreparedExchange, servers?: PreparedExchange['available']): Promise<readonly ServerListing[]>;
  /** Tells whether a server of the session has tasks for clients of this era. Asks those that nobody has asked yet. */
  hasTasks(exchange: PreparedExchange): Promise<boolean>;
  /** Renames resource addresses in the result of a tool or a prompt as they are renamed in lists. */
  renameResources(
    exchange: PreparedExchange,
    server: ServerDefinition,
    reply: FinalReply,
  ): FinalReply | Promise<FinalReply>;
  /** Finds the tool that an app calls by its own name, without the name of the server. */
  findAppTool(exchange: PreparedExchange, name: string): Promise<RouteTarget | undefined>;
}

/** The time that the servers get to declare their capabilities. */
const discoverMs = 2000;

type MessageReply = Extract<FinalReply, { kind: 'message' }>;

export function createAggregate(parts: AggregateParts): Aggregate {
  const { links, callers, catalog, resolution, ownTools, ownServer, inbox, serverCallers, createListReply } = parts;
  const { fetchLists, fetchVisibleLists, findKnownCapabilities, hasTasks } = createListAccess(parts);
  const waitForLists = createListWait(fetchLists);
  const resources = createResources({ fetchLists, ask: serverCallers.ask, inbox, createListReply });
  const streams = createListenStreams();
  const apps = createShownApps();
  const renameUris = createUriRenaming(resources, apps);

  async function initialize(exchange: PreparedExchange): Promise<FinalReply> {
    const { message, session } = exchange;
    const requested = readStringValue(message.bytes, findMember(message.params?.shape, 'protocolVersion'));
    // No server is asked yet: its questions to the client would come before this answer.
    const { version, result } = initializeAll(requested, findKnownCapabilities(exchange));
    const clean = applyMessageEdits(message, exchange.edits);
    const link = createCompositeLink(session, clean, links, callers);
    const { id: sessionId, workspaceId, unavailableWorkspace } = session;
    const place = { sessionId, workspaceId, unavailableWorkspace };
    const caller = callers.open({ ...place, server: allServers, version, link, initialize: clean });
    if (exchange.entrance === 'stdio') caller.stream = exchange.channel;
    await parts.saveTransport(caller);
    return { ...createResultReply(message, result), transportId: caller.id };
  }

  /** Sends the message to one server, as if it had come to the server's own address. */
  function sendToServer(
    exchange: PreparedExchange,
    upstream: ServerDefinition,
    edit: Edit,
    shown?: string,
  ): Promise<FinalReply> {
    exchange.entry.upstream = upstream.name;
    const { message, edits } = exchange;
    const outgoing = applyMessageEdits(message, [...edits, edit]);
    return parts.send(Object.assign(exchange, { upstream, outgoing, edits: [] }), shown);
  }

  /** Answers `server/discover` with the capabilities of all servers, or of those that have answered in time. */
  async function discover(exchange: PreparedExchange): Promise<FinalReply> {
    await waitForLists(exchange);
    return createResultReply(exchange.message, discoverAll(findKnownCapabilities(exchange)));
  }

  /** Lists the tools of the servers and Ambit's own tools. Their names cannot clash. */
  async function listTools(exchange: PreparedExchange): Promise<FinalReply> {
    const { texts, unavailable } = collectTools(await fetchVisibleLists(exchange), resources.knownRoutes(exchange));
    return createListReply(exchange, 'tools', { texts: [...texts, ...ownTools.texts(exchange.session)], unavailable });
  }

  async function sendByUri(exchange: PreparedExchange): Promise<FinalReply> {
    const { message } = exchange;
    const member = findMember(message.params?.shape, 'uri');
    const uri = readStringValue(message.bytes, member) ?? '';
    const found = await resources.find(exchange, uri);
    if (found === undefined || member === undefined) {
      throw new ProtocolError(exchange.era === 'modern' ? -32602 : -32002, 200, 'Resource not found', { uri });
    }
    const reply = await sendToServer(exchange, found.server, replaceValue(member, JSON.stringify(found.name)), uri);
    if (message.method !== 'resources/read' || reply.kind !== 'message') return reply;
    // The client reads the address that it asked for.
    return renameUris(exchange, found.server, reply, findUris(reply.bytes), (own) =>
      own === found.name ? uri : undefined,
    );
  }

  async function completeArgument(exchange: PreparedExchange): Promise<FinalReply> {
    const { message } = exchange;
    const ref = findMember(message.params?.shape, 'ref');
    const shape = ref === undefined ? undefined : readShape(message.bytes, ref);
    const isPrompt = readStringValue(message.bytes, findMember(shape, 'type')) === 'ref/prompt';
    const member = findMember(shape, isPrompt ? 'name' : 'uri');
    const name = readStringValue(message.bytes, member) ?? '';
    const found = isPrompt
      ? await findNamed(exchange, name, 'prompts', fetchLists)
      : await resources.find(exchange, name);
    if (found === undefined || member === undefined)
      throw new ProtocolError(-32602, 200, 'No prompt or resource with that name');
    return sendToServer(exchange, found.server, replaceValue(member, JSON.stringify(found.name)));
  }

  function openListenStream(exchange: PreparedExchange): Promise<FinalReply> {
    const { channel, message, session } = exchange;
    const findAll = async (uris: readonly string[]) => (await resources.findAll(exchange, uris)).found;
    return streams.open({ owner: channel.owner, id: message.id as string, sessionId: session.id }, (stream) =>
      listenToAll(exchange, { links, catalog, resolution, seals: parts.seals, findAll, stream, inbox }),
    );
  }

  async function request(exchange: PreparedExchange): Promise<FinalReply> {
    const { message, caller } = exchange;
    const modern = exchange.era === 'modern';
    switch (message.method) {
      case 'tools/list':
        return listTools(exchange);
      case 'prompts/list':
        return createListReply(exchange, 'prompts', collectPrompts(await fetchLists(exchange)));
      case 'resources/templates/list':
        return resources.listTemplates(exchange);
      case 'resources/list':
        return resources.list(exchange);
      case 'resources/read':
        return sendByUri(exchange);
      case 'completion/complete':
        return completeArgument(exchange);
    }
    if (modern && message.method === 'server/discover') return discover(exchange);
    if (modern && message.method === 'subscriptions/listen') return openListenStream(exchange);
    if (!modern && message.method === 'initialize') return initialize(exchange);
    if (!modern && message.method === 'ping') return createResultReply(message, '{}');
    if (!modern && message.method === 'logging/setLevel') return setLogLevel(exchange);
    if (caller?.version === handshakeVersions[0] && message.method === 'tasks/list' && (await hasTasks(exchange)))
      return createListReply(exchange, 'tasks', await listTasks(exchange, serverCallers));
    if (!modern && changesSubscription(message.method)) return sendByUri(exchange);
    throw new ProtocolError(-32601, modern ? 404 : 200, 'Method not found');
  }

  function notify(exchange: PreparedExchange): FinalReply {
    const { message, caller, channel } = exchange;
    if (message.method === 'notifications/cancelled') {
      const requestId = findMember(message.params?.shape, 'requestId');
      if (requestId === undefined) return acceptedReply;
      const raw = readRawValue(message.bytes, requestId);
      streams.cancel(channel.owner, raw);
      ownServer.links[exchange.era].cancel(caller ?? channel.owner, raw, message);
      cancelAtServers(links, exchange, raw);
    } else if (caller !== undefined && message.method === 'notifications/roots/list_changed') {
      forwardRootsChange(exchange, caller.link as CompositeLink);
    }
    return acceptedReply;
  }

  return {
    request,
    notify,
    fetchLists,
    hasTasks,
    renameResources(exchange, server, reply) {
      if (reply.kind !== 'message') return reply;
      const uris = findResourceUris(reply.bytes);
      return uris.length === 0 ? reply : renameUris(exchange, server, reply, uris);
    },
    findAppTool: async (exchange, name) =>
      findAppTool(name, await fetchVisibleLists(exchange), apps.list(exchange.session.id)),
    announceChange: streams.announceChange,
    endSession(sessionId, reason) {
      apps.forget(sessionId);
      streams.endSession(sessionId, reason);
    },
  };
}

/** Reads the lists and capabilities of the servers that a session may use. */
function createListAccess({ catalog, resolution, serverCallers, tools }: AggregateParts) {
  /** Creates the function that makes the query for the lists of a server. */
  function createQuery(exchange: PreparedExchange) {
    const { era, session } = exchange;
    const known = { era, capabilities: readCapabilities(exchange), scopeKey: sessionScopeKey(session) };
    return (server: ServerDefinition) => ({ ...known, owner: resolution.listOwnerFor(session, server) });
  }

  function fetchLists(exchange: PreparedExchange, servers = exchange.available): Promise<ServerListing[]> {
    const queryFor = createQuery(exchange);
    const fetchFrom = (server: ServerDefinition) =>
      catalog.list(server, {
        ...queryFor(server),
        ask: serverCallers.ask(exchange, server),
        askAs: serverCallers.askAs(exchange, server),
      });
    return Promise.all(servers.map(fetchFrom));
  }

  function findKnownCapabilities(exchange: PreparedExchange): KnownCapabilities {
    const queryFor = createQuery(exchange);
    const offers = exchange.available.map((server) => catalog.knownOffer(server, queryFor(server)));
    const relayed = findRelayedExtensions(readCapabilities(exchange));
    const tasks = new Set(offers.map((offer) => offer?.hasTasks));
    return {
      extensions: mergeExtensions([...offers.map((offer) => offer?.extensions), relayed]),
      hasTasks: tasks.has(true) || (tasks.has(undefined) ? undefined : false),
    };
  }

  return {
    fetchLists,
    /** Leaves out the tools that no call of this session could use. */
    async fetchVisibleLists(exchange: PreparedExchange): Promise<ServerListing[]> {
      return (await fetchLists(exchange)).map((listed) => {
        const { server, offer } = listed;
        if (offer === undefined) return listed;
        const view = {
          shown: tools.visibleToolFilter(exchange.session, server.name),
          replaced: tools.replacementFinder(server.name),
        };
        return { ...listed, offer: { ...offer, tools: filterTools(view, offer.tools) } };
      });
    },
    findKnownCapabilities,
    hasTasks: async (exchange: PreparedExchange) =>
      findKnownCapabilities(exchange).hasTasks ?? askForTasks(exchange, serverCallers),
  };
}

/** Creates the function that waits until the servers have answered. It waits only once for a server that hangs. */
function createListWait(fetchLists: Aggregate['fetchLists']) {
  const slow = new WeakSet<ServerDefinition>();
  return async function waitForLists(exchange: PreparedExchange): Promise<void> {
    const waits = exchange.available.map(async (server) => {
      const asked = fetchLists(exchange, [server]).then(([listed]) => {
        if (listed?.offer !== undefined) slow.delete(server);
      });
      asked.catch(() => {});
      if (!slow.has(server)) await withTimeout(asked, discoverMs).catch(() => slow.add(server));
    });
    await Promise.all(waits);
  };
}

/** Creates the function that renames resource addresses in a result as they are renamed in lists. */
function createUriRenaming(resources: Resources, apps: ShownApps) {
  return async function renameUris(
    exchange: PreparedExchange,
    server: ServerDefinition,
    reply: MessageReply,
    uris: readonly ResourceUri[],
    shownAs: (uri: string) => string | undefined = () => undefined,
  ): Promise<FinalReply> {
    const { session } = exchange;
    if (uris.some(({ uri, isContained }) => isContained && isAppUri(uri))) apps.add(session.id, server.name);
    const others = uris.map(({ uri }) => uri).filter((uri) => shownAs(uri) === undefined);
    const rename = others.length === 0 ? String : await resources.createRenamer(exchange, server, others);
    return replaceUris(reply, uris, (uri) => shownAs(uri) ?? rename(uri));
  };
}

/** Lists the tasks of the session at the servers that the client has used. */
async function listTasks(exchange: PreparedExchange, { ask }: ServerCallers): Promise<CollectedList> {
  const { caller, available } = exchange;
  if (caller === undefined) throw new AmbitError('INTERNAL');
  const { children, declared } = caller.link as CompositeLink;
  const lists = available
    .filter(({ name }) => children.has(name) && listsTasks(declared.get(name)))
    .map(async (server) => {
      try {
        const fetching = fetchList(ask(exchange, server), 'tasks/list', 'tasks');
        return { texts: (await withTimeout(fetching, tasksDeadlineMs)) ?? [], unavailable: [] };
      } catch (error) {
        return { texts: [], unavailable: [{ server: server.name, reason: describeFailure(error) }] };
      }
    });
  const all = await Promise.all(lists);
  const texts = all.flatMap((each) => each.texts);
  return { texts, unavailable: all.flatMap((each) => each.unavailable) };
}

function listsTasks(declared: Readonly<Record<string, unknown>> | undefined): boolean {
  const tasks = declared?.tasks as { readonly list?: unknown } | null | undefined;
  return tasks?.list !== undefined;
}

function readCapabilities({ caller, message }: PreparedExchange): string {
  return capabilitiesKey(caller === undefined ? message : (caller.link as CompositeLink).initialize);
}

/** Sets the log level of the servers that the client has used. Other servers get it when they are first used. */
async function setLogLevel(exchange: PreparedExchange): Promise<FinalReply> {
  const { message, caller } = exchange;
  if (caller !== undefined) {
    const composite = caller.link as CompositeLink;
    const level = readStringValue(message.bytes, findMember(message.params?.shape, 'level'));
    composite.logLevel = level;
    const params = level === undefined ? '{}' : JSON.stringify({ level });
    await Promise.all(
      [...composite.children.values()].map((child) =>
        child
          .then((each) => each.link.request({ ...createOwnCall('logging/setLevel', params), caller: each }))
          .catch(() => {}),
      ),
    );
  }
  return createResultReply(message, '{}');
}

/** Cancels a request wherever it may have been sent: the client does not say to which server. */
function cancelAtServers(
  links: Links,
  { message, caller, session, channel, available }: PreparedExchange,
  id: string,
): void {
  const children = caller === undefined ? [] : [...(caller.link as CompositeLink).children.values()];
  for (const link of available.flatMap(({ name }) => links.listFor(session.id, name))) {
    link.cancel(channel.owner, id, message);
    for (const child of children) {
      child.then((each) => link.cancel(each, id, message)).catch(() => {});
    }
  }
}

function forwardRootsChange({ message, channel, headers, edits }: PreparedExchange, { children }: CompositeLink): void {
  const call = { message, edits, channel, headers, acting: undefined, cancelOnGone: false };
  for (const child of children.values()) {
    child.then((caller) => caller.link.notify({ ...call, caller })).catch(() => {});
  }
}
