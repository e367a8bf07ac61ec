import type { AmbitError } from '../../errors.ts';
import { accepted, type Reply } from '../../protocol/channel.ts';
import { resultMessage } from '../../protocol/compose.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, rawAt, shapeAt, stringAt } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import { ProtocolFault } from '../../protocol/protocol-fault.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import type { ToolBounds } from '../../upstreams/access/tool-bounds.ts';
import type { Catalog, Listed } from '../../upstreams/catalog/catalog.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { ownCall } from '../../upstreams/links/bridge/ask-upstream.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import { capabilitiesKey } from '../../upstreams/links/handshake.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { changesSubscription } from '../lists/request-subscription.ts';
import { seenThrough } from '../lists/shown-tools.ts';
import type { RememberedTransports } from '../sessions/remembered-transports.ts';
import { type Composite, createComposite } from './children.ts';
import { findNamed } from './find-server.ts';
import { allServers, type ForAll } from './for-all.ts';
import { listenToAll } from './listen-to-all.ts';
import { gather, listReply, lookAtAll } from './lists.ts';
import { discoverAll, initializeAll } from './own-results.ts';
import type { OwnTools } from './own-tools.ts';
import { createResources } from './resources.ts';
import type { SendToServer } from './send-to-server.ts';
import type { ServerCallers } from './server-callers.ts';

interface ListenStream {
  readonly owner: object;
  readonly id: string;
  readonly sessionId: string;
  end(): void;
  fail(reason: AmbitError): void;
  tellAll(): void;
}

export interface AggregateParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly catalog: Catalog;
  readonly resolution: Resolution;
  readonly tools: ToolBounds;
  readonly remember: RememberedTransports['remember'];
  readonly own: OwnTools;
  readonly serverCallers: ServerCallers;
  readonly send: SendToServer;
}

/** Many servers as one: their lists, resources and listen streams. Calls of tools are routed before they come here. */
export interface Aggregate {
  request(exchange: ForAll): Promise<Reply>;
  notify(exchange: ForAll): Reply;
  /** The lists of each server that the session may use. */
  look(exchange: ForAll): Promise<readonly Listed[]>;
  /** A session may use other servers than before: those who listen in it are told. */
  boundsChanged(sessionId: string): void;
  /** A session has ended: its listen streams fail for that reason. */
  leave(sessionId: string, reason: AmbitError): void;
}

export function createAggregate(parts: AggregateParts): Aggregate {
  const { links, callers, catalog, resolution, tools, own, serverCallers, send } = parts;
  const resources = createResources({ look, askOf: (exchange) => (server) => serverCallers.ask(exchange, server) });
  /** Listen streams, which on stdio end by being cancelled. */
  const listening = new Set<ListenStream>();

  async function initialize(exchange: ForAll): Promise<Reply> {
    const { message, session } = exchange;
    const requested = stringAt(message.bytes, memberOf(message.params?.shape, 'protocolVersion'));
    const { version, result } = initializeAll(requested);
    const clean = readMessage(applyEdits(message.bytes, exchange.edits));
    const link = createComposite(session, clean, links, callers);
    const { id: sessionId, workspaceId } = session;
    const caller = callers.open({ sessionId, workspaceId, server: allServers, version, link, initialize: clean });
    if (exchange.entrance === 'stdio') caller.stream = exchange.channel;
    await parts.remember(caller);
    return { kind: 'message', bytes: resultMessage(message.id as string, result), status: 200, transportId: caller.id };
  }

  /** Sends the message to one server, as if it had come to that server's own address. */
  function toServer(exchange: ForAll, upstream: ServerDefinition, edit: Edit, shown?: string): Promise<Reply> {
    exchange.entry.upstream = upstream.name;
    const { message, edits } = exchange;
    const outgoing = readMessage(applyEdits(message.bytes, [...edits, edit]));
    return send(Object.assign(exchange, { upstream, outgoing, edits: [] }), shown);
  }

  function look(exchange: ForAll): Promise<Listed[]> {
    const { session } = exchange;
    const capabilities = capabilitiesOf(exchange);
    return lookAtAll(exchange, catalog, (server) => ({
      capabilities,
      owner: resolution.listOwner(session, server),
      place: placeOf(session),
      ask: serverCallers.ask(exchange, server),
    }));
  }

  /** Of the tools, only those that some call of this session could be allowed for. */
  async function lookAtShown(exchange: ForAll): Promise<Listed[]> {
    return (await look(exchange)).map((listed) => {
      const { server, offer } = listed;
      if (offer === undefined) return listed;
      const view = { shown: tools.shown(exchange.session, server.name), replaced: tools.replaced(server.name) };
      return { ...listed, offer: { ...offer, tools: seenThrough(view, offer.tools) } };
    });
  }

  /** The servers' tools, and Ambit's own, whose names no server's can have. */
  async function listTools(exchange: ForAll): Promise<Reply> {
    const { texts, unavailable } = gather(await lookAtShown(exchange), 'tools');
    return listReply(exchange, 'tools', { texts: [...texts, ...own.texts(exchange.session)], unavailable });
  }

  async function byUri(exchange: ForAll): Promise<Reply> {
    const { message } = exchange;
    const member = memberOf(message.params?.shape, 'uri');
    const uri = stringAt(message.bytes, member) ?? '';
    const found = await resources.find(exchange, uri);
    if (found === undefined || member === undefined) {
      throw new ProtocolFault(exchange.era === 'modern' ? -32602 : -32002, 200, 'Resource not found', { uri });
    }
    return toServer(exchange, found.server, replaceValue(member, JSON.stringify(found.name)), uri);
  }

  async function complete(exchange: ForAll): Promise<Reply> {
    const { message } = exchange;
    const ref = memberOf(message.params?.shape, 'ref');
    const shape = ref === undefined ? undefined : shapeAt(message.bytes, ref);
    const isPrompt = stringAt(message.bytes, memberOf(shape, 'type')) === 'ref/prompt';
    const member = memberOf(shape, isPrompt ? 'name' : 'uri');
    const name = stringAt(message.bytes, member) ?? '';
    const found = isPrompt
      ? await findNamed(exchange, name, 'prompts', () => look(exchange))
      : await resources.find(exchange, name);
    if (found === undefined || member === undefined)
      throw new ProtocolFault(-32602, 200, 'Nothing of that name to complete');
    return toServer(exchange, found.server, replaceValue(member, JSON.stringify(found.name)));
  }

  async function setLevel(exchange: ForAll): Promise<Reply> {
    const { message, caller } = exchange;
    if (caller !== undefined) {
      const composite = caller.link as Composite;
      const level = stringAt(message.bytes, memberOf(message.params?.shape, 'level'));
      composite.logLevel = level;
      const params = level === undefined ? '{}' : JSON.stringify({ level });
      await Promise.all(
        [...composite.children.values()].map((child) =>
          child
            .then((each) => each.link.request({ ...ownCall('logging/setLevel', params), caller: each }))
            .catch(() => {}),
        ),
      );
    }
    return { kind: 'message', bytes: resultMessage(message.id as string, '{}'), status: 200 };
  }

  async function listen(exchange: ForAll): Promise<Reply> {
    const { channel, message, session } = exchange;
    const about = { owner: channel.owner, id: message.id as string, sessionId: session.id };
    const stream: ListenStream = { ...about, end() {}, fail() {}, tellAll() {} };
    listening.add(stream);
    const failed = new Promise<never>((_, fail) => {
      stream.fail = fail;
    });
    const onCancel = (end: () => void) => {
      stream.end = end;
    };
    const onBoundsChange = (tellAll: () => void) => {
      stream.tellAll = tellAll;
    };
    const findAll = async (uris: readonly string[]) => (await resources.findAll(exchange, uris)).found;
    const parts = { links, catalog, resolution, findAll, onCancel, onBoundsChange };
    return Promise.race([failed, listenToAll(exchange, parts)]).finally(() => {
      listening.delete(stream);
      stream.end();
    });
  }

  async function request(exchange: ForAll): Promise<Reply> {
    const { message } = exchange;
    const modern = exchange.era === 'modern';
    switch (message.method) {
      case 'tools/list':
        return listTools(exchange);
      case 'prompts/list':
        return listReply(exchange, 'prompts', gather(await look(exchange), 'prompts'));
      case 'resources/templates/list':
        return resources.listTemplates(exchange);
      case 'resources/list':
        return resources.list(exchange);
      case 'resources/read':
        return byUri(exchange);
      case 'completion/complete':
        return complete(exchange);
    }
    if (modern && message.method === 'server/discover') return answer(message, discoverAll());
    if (modern && message.method === 'subscriptions/listen') {
      return listen(exchange);
    }
    if (!modern && message.method === 'initialize') return initialize(exchange);
    if (!modern && message.method === 'ping') return answer(message, '{}');
    if (!modern && message.method === 'logging/setLevel') return setLevel(exchange);
    if (!modern && changesSubscription(message.method)) return byUri(exchange);
    throw new ProtocolFault(-32601, modern ? 404 : 200, 'Method not found');
  }

  function notify(exchange: ForAll): Reply {
    const { message, caller, session } = exchange;
    if (message.method === 'notifications/cancelled') {
      const requestId = memberOf(message.params?.shape, 'requestId');
      if (requestId === undefined) return accepted;
      const raw = rawAt(message.bytes, requestId);
      for (const stream of listening) if (stream.owner === exchange.channel.owner && stream.id === raw) stream.end();
      const children = caller === undefined ? [] : [...(caller.link as Composite).children.values()];
      for (const server of exchange.available) {
        for (const link of links.of(session.id, server.name)) {
          link.cancel(exchange.channel.owner, raw, message);
          for (const child of children)
            child.then(
              (each) => link.cancel(each, raw, message),
              () => {},
            );
        }
      }
      return accepted;
    }
    if (caller !== undefined && message.method === 'notifications/roots/list_changed') {
      for (const child of (caller.link as Composite).children.values()) {
        const { channel, headers, edits } = exchange;
        child.then(
          (each) =>
            each.link.notify({
              message,
              edits,
              channel,
              headers,
              caller: each,
              acting: undefined,
              cancelOnGone: false,
            }),
          () => {},
        );
      }
    }
    return accepted;
  }

  return {
    request,
    notify,
    look,
    boundsChanged(sessionId) {
      for (const stream of listening) if (stream.sessionId === sessionId) stream.tellAll();
    },
    leave(sessionId, reason) {
      for (const stream of listening) if (stream.sessionId === sessionId) stream.fail(reason);
    },
  };
}

function capabilitiesOf({ caller, message }: ForAll): string {
  return capabilitiesKey(caller === undefined ? message : (caller.link as Composite).initialize);
}

function answer(message: Message, result: string): Reply {
  return { kind: 'message', bytes: resultMessage(message.id as string, result), status: 200 };
}
