import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Channel } from '../../protocol/channel.ts';
import { composeError } from '../../protocol/compose-message.ts';
import { insertMeta } from '../../protocol/insert-meta.ts';
import { applyEdits } from '../../protocol/json/edit.ts';
import { readRawValue } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import type { AskServer, OpenAskAs } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller } from '../../upstreams/links/caller.ts';
import { discoverParams, refusedHandshakeError } from '../../upstreams/links/handshake.ts';
import { askUpstream, createOwnCall, type Link, type UpstreamCall } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { noReplyError } from '../../upstreams/links/upstream-errors.ts';
import { allServers, type PreparedExchange } from '../exchange.ts';
import { type CompositeLink, readCapabilities } from './composite-link.ts';

/** Finds the client of a server for a request, at the server's own address and at the address of all servers. */
export interface ServerCallers {
  /**
   * Finds the handshake-era client for a request: the client itself at the server's own address, a child of it at the
   * address of all servers. Its link is opened again if necessary.
   */
  find(exchange: PreparedExchange, server: ServerDefinition): Caller | Promise<Caller>;
  /** Asks the server on behalf of the client, with the client's own description. */
  ask(exchange: PreparedExchange, server: ServerDefinition): AskServer;
  /** Asks which capabilities the server declares to the client. Only for clients of all servers. */
  fetchCapabilities(exchange: PreparedExchange, server: ServerDefinition): Promise<Record<string, unknown>>;
  /** Opens a way to ask the server as a client with other capabilities. */
  askAs(exchange: PreparedExchange, server: ServerDefinition): OpenAskAs;
}

export function createServerCallers(links: Links): ServerCallers {
  const reconnecting = new WeakMap<Caller, Promise<Caller>>();

  /** Repeats the handshake of a client after a restart or a change of its server. */
  async function reconnect(exchange: PreparedExchange, caller: Caller, server: ServerDefinition): Promise<Caller> {
    const { channel, headers, session, correlationId, trace, entry } = exchange;
    const acting = { session, correlationId, trace, entry };
    const again = { message: caller.initialize, edits: [], channel, headers, caller, acting, cancelOnGone: false };
    const { link, version } = await links.handshake(session, server, again);
    if (version === undefined) throw refusedHandshakeError(undefined, server);
    // The old link finishes its calls.
    caller.link = link;
    link.attach(caller);
    const initialized = readMessage(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    link.notify({ ...again, message: initialized });
    if (caller.stream !== undefined) link.listen(caller);
    return caller;
  }

  function find(exchange: PreparedExchange, server: ServerDefinition): Caller | Promise<Caller> {
    const { caller, session } = exchange;
    if (caller === undefined) throw new AmbitError('INTERNAL');
    if (exchange.server === allServers) return (caller.link as CompositeLink).child(caller, server, session);
    if (!links.isRetired(caller.link, caller.sessionId)) return caller;
    // Several calls share one handshake.
    const running =
      reconnecting.get(caller) ?? reconnect(exchange, caller, server).finally(() => reconnecting.delete(caller));
    reconnecting.set(caller, running);
    return running;
  }

  return {
    find,
    ask(exchange, server) {
      if (exchange.era === 'modern') return askAsModern(links, exchange.session, server, exchange.message);
      return async (method, params) => {
        const caller = await find(exchange, server);
        // A handshake-era client was told this by the handshake.
        if (method === 'server/discover') return findHandshakeAnswer(exchange, server) ?? unknownMethod;
        return askUpstream(caller.link, method, params, caller);
      };
    },
    async fetchCapabilities(exchange, server) {
      const { era, caller, session, message } = exchange;
      if (era === 'modern') {
        return readCapabilities(await askAsModern(links, session, server, message)('server/discover', '{}'));
      }
      await find(exchange, server);
      const composite = caller?.link as CompositeLink | undefined;
      return composite?.declared.get(server.name) ?? {};
    },
    askAs:
      ({ session }, server) =>
      (capabilities) => {
        const request = createDescription(capabilities);
        const link = links.openSeparately(session, server, request);
        return { ask: askOverLink(session, link, request), close: link.close };
      },
  };
}

const unknownMethod = readMessage(composeError('"ambit"', -32601, 'Method not found'));

/** Finds the answer of a server to the handshake of a client of all servers. */
function findHandshakeAnswer({ caller, server: address }: PreparedExchange, server: ServerDefinition) {
  return address === allServers ? (caller?.link as CompositeLink | undefined)?.answers.get(server.name) : undefined;
}

/** Creates a call with the client description of a modern request. */
export function createDescribedCall(request: Message, method: string, params: string, channel?: Channel): UpstreamCall {
  const call = createOwnCall(method, params, channel);
  const members = (request.meta?.members ?? []).filter(({ key }) => key.startsWith('io.modelcontextprotocol/'));
  const texts = members.map((member) => `${JSON.stringify(member.key)}:${readRawValue(request.bytes, member)}`);
  const message = readMessage(applyEdits(call.message.bytes, [insertMeta(call.message, texts.join(','))]));
  return { ...call, message };
}

export function askAsModern(links: Links, session: Session, server: ServerDefinition, request: Message): AskServer {
  const link = { server: server.name, request: (call: UpstreamCall) => links.requestModern(session, server, call) };
  return askOverLink(session, link, request);
}

export function askOverLink(session: Session, link: Pick<Link, 'server' | 'request'>, request: Message): AskServer {
  return async (method, params) => {
    const reply = await link.request({
      ...createDescribedCall(request, method, params),
      acting: { session, correlationId: randomUUID() },
    });
    if (reply.kind !== 'message') throw noReplyError(link.server, method);
    return readMessage(reply.bytes);
  };
}

/** Creates a modern request of Ambit's own that declares these capabilities, which are JSON text. */
export function createDescription(capabilities: string): Message {
  const { _meta } = JSON.parse(discoverParams) as { readonly _meta: object };
  const params = { _meta: { ..._meta, 'io.modelcontextprotocol/clientCapabilities': JSON.parse(capabilities) } };
  return readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'server/discover', params })));
}
