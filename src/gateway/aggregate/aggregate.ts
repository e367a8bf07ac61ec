import { AmbitError } from '../../errors.ts';
import { placeOf } from '../../sessions/in-workspace.ts';
import { askUpstream, ownCall } from '../../upstreams/bridge/ask-upstream.ts';
import type { Caller, Callers } from '../../upstreams/caller.ts';
import type { Catalog, Listed } from '../../upstreams/catalog/catalog.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { capabilitiesKey } from '../../upstreams/handshake.ts';
import type { Call } from '../../upstreams/link.ts';
import type { Links } from '../../upstreams/links.ts';
import { accepted, type Reply } from '../../wire/channel.ts';
import { resultMessage } from '../../wire/compose.ts';
import { applyEdits, type Edit, replaceValue } from '../../wire/edit.ts';
import { type Message, readMessage } from '../../wire/message.ts';
import { ProtocolFault } from '../../wire/protocol-fault.ts';
import { memberOf, rawAt, shapeAt, stringAt } from '../../wire/scan.ts';
import type { CachedCalls } from '../cached-calls.ts';
import type { ConfirmCall } from '../confirm-call.ts';
import type { OwnTools } from '../own-tools.ts';
import type { RememberedTransports } from '../remembered-transports.ts';
import { changesSubscription, requestSubscription } from '../request-subscription.ts';
import type { Resolution } from '../resolution.ts';
import { seenThrough } from '../shown-tools.ts';
import { assertToolApproved } from '../stages/vet-tools.ts';
import { timeUpstream } from '../time-upstream.ts';
import type { ToolBounds } from '../tool-bounds.ts';
import { askAsModern } from './ask-as.ts';
import { type Composite, createComposite } from './children.ts';
import { findNamed } from './find-server.ts';
import { allServers, type ForAll } from './for-all.ts';
import { listenToAll } from './listen-to-all.ts';
import { gather, listReply, lookAtAll } from './lists.ts';
import { namingAskers } from './naming-askers.ts';
import { discoverAll, initializeAll } from './own-results.ts';
import { createResources } from './resources.ts';

export interface AggregateParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly catalog: Catalog;
  readonly resolution: Resolution;
  readonly tools: ToolBounds;
  readonly cached: CachedCalls;
  readonly remember: RememberedTransports['remember'];
  readonly own: OwnTools;
  readonly confirmCall: ConfirmCall;
}

/** Many servers as one. */
export interface Aggregate {
  request(exchange: ForAll): Promise<Reply>;
  notify(exchange: ForAll): Reply;
  /** A session may use other servers than before: those who listen in it are told. */
  boundsChanged(sessionId: string): void;
}

export function createAggregate(parts: AggregateParts): Aggregate {
  const { links, callers, catalog, resolution, tools, cached, own } = parts;
  const resources = createResources({ look, askOf });
  /** Listen streams, which on stdio end by being cancelled. */
  const listening = new Set<{ owner: object; id: string; sessionId: string; end(): void; tellAll(): void }>();

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

  /** The message to one server, as if it had come to that server's own address. `shown` is what the client calls the resource. */
  async function toServer(
    exchange: ForAll,
    server: ServerDefinition,
    message: Message,
    shown?: string,
  ): Promise<Reply> {
    const { channel, headers, session, correlationId, trace, entry } = exchange;
    entry.upstream = server.name;
    const call: Call = {
      message,
      edits: [],
      channel,
      headers,
      caller: undefined,
      acting: { session, correlationId, trace, confirm: parts.confirmCall(exchange, server, message), entry },
      cancelOnGone: true,
      namesAsker: true,
    };
    async function ask(): Promise<Reply> {
      if (exchange.era === 'modern') return namingAskers(await links.modern(session, server, call), server.name);
      const child = await childOf(exchange, server);
      const own = { ...call, caller: child, cancelOnGone: false };
      return changesSubscription(message.method)
        ? requestSubscription(callers, own, child, shown)
        : child.link.request(own);
    }
    return trace?.upstreamSpanId === undefined ? ask() : timeUpstream(exchange, server.name, ask);
  }

  function childOf(exchange: ForAll, server: ServerDefinition): Promise<Caller> {
    const { caller, session } = exchange;
    if (caller === undefined) throw new AmbitError('INTERNAL');
    return (caller.link as Composite).child(caller, server, session);
  }

  /** Asks a server on the client's behalf, describing the client as it described itself. */
  function askOf(exchange: ForAll): (server: ServerDefinition) => AskServer {
    return (server) => {
      if (exchange.era === 'modern') return askAsModern(links, exchange.session, server, exchange.message);
      return async (method, params) => {
        const child = await childOf(exchange, server);
        return askUpstream(child.link, method, params, child);
      };
    };
  }

  function look(exchange: ForAll): Promise<Listed[]> {
    const { session } = exchange;
    const capabilities = capabilitiesOf(exchange);
    const ask = askOf(exchange);
    return lookAtAll(exchange, catalog, (server) => ({
      capabilities,
      owner: resolution.listOwner(session, server),
      place: placeOf(session),
      ask: ask(server),
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

  async function byName(exchange: ForAll, what: 'tools' | 'prompts'): Promise<Reply> {
    const { message } = exchange;
    const member = memberOf(message.params?.shape, 'name');
    const name = stringAt(message.bytes, member) ?? '';
    if (what === 'tools' && own.has(name)) return own.call(exchange);
    const found = await findNamed(exchange, name, what, () => look(exchange));
    if (found === undefined || member === undefined) {
      throw new AmbitError('SERVER_NOT_AVAILABLE', {
        what: `No server available to this session has "${name.slice(0, 100)}".`,
        hint: `Use a name from ${what}/list: they are called server__name.`,
      });
    }
    if (what === 'tools' && found.server.source !== 'operator') {
      const listed = (await look(exchange)).find((each) => each.server === found.server);
      if (listed === undefined) throw new AmbitError('SERVER_NOT_AVAILABLE');
      if (listed.offer === undefined) throw listed.failure ?? new AmbitError('UPSTREAM_FAILED');
      assertToolApproved(listed, found.name);
    }
    if (what === 'tools') exchange.entry.rule = tools.admit(exchange.session, found.server.name, found.name, message);
    const named = changed(exchange, replaceValue(member, JSON.stringify(found.name)));
    if (what !== 'tools' || !cached.concerns(found.server, named)) return toServer(exchange, found.server, named);
    const { session, channel, caller, headers, correlationId, entry, era } = exchange;
    return cached.answer(
      {
        session,
        upstream: found.server,
        message: named,
        channel,
        caller,
        headers,
        correlationId,
        entry,
        capabilities: capabilitiesOf(exchange),
        manner: `all ${era} ${caller?.version ?? ''}`,
        ask: askOf(exchange)(found.server),
      },
      (listened) => toServer({ ...exchange, channel: listened }, found.server, named),
    );
  }

  async function byUri(exchange: ForAll): Promise<Reply> {
    const { message } = exchange;
    const member = memberOf(message.params?.shape, 'uri');
    const uri = stringAt(message.bytes, member) ?? '';
    const found = await resources.find(exchange, uri);
    if (found === undefined || member === undefined) {
      throw new ProtocolFault(exchange.era === 'modern' ? -32602 : -32002, 200, 'Resource not found', { uri });
    }
    const own = changed(exchange, replaceValue(member, JSON.stringify(found.name)));
    return toServer(exchange, found.server, own, uri);
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
    return toServer(exchange, found.server, changed(exchange, replaceValue(member, JSON.stringify(found.name))));
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
    const stream = { owner: channel.owner, id: message.id as string, sessionId: session.id, end() {}, tellAll() {} };
    listening.add(stream);
    const onCancel = (end: () => void) => {
      stream.end = end;
    };
    const onBoundsChange = (tellAll: () => void) => {
      stream.tellAll = tellAll;
    };
    const findAll = async (uris: readonly string[]) => (await resources.findAll(exchange, uris)).found;
    const parts = { links, catalog, resolution, findAll, onCancel, onBoundsChange };
    return listenToAll(exchange, parts).finally(() => listening.delete(stream));
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
      case 'tools/call':
        return byName(exchange, 'tools');
      case 'prompts/get':
        return byName(exchange, 'prompts');
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
    boundsChanged(sessionId) {
      for (const stream of listening) if (stream.sessionId === sessionId) stream.tellAll();
    },
  };
}

function capabilitiesOf({ caller, message }: ForAll): string {
  return capabilitiesKey(caller === undefined ? message : (caller.link as Composite).initialize);
}

function changed(exchange: ForAll, edit: Edit): Message {
  return readMessage(applyEdits(exchange.message.bytes, [...exchange.edits, edit]));
}

function answer(message: Message, result: string): Reply {
  return { kind: 'message', bytes: resultMessage(message.id as string, result), status: 200 };
}
