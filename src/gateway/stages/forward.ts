import { acceptedReply, type FinalReply } from '../../protocol/channel.ts';
import { type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readRawValue } from '../../protocol/json/scan.ts';
import { applyMessageEdits } from '../../protocol/message.ts';
import type { Upstream } from '../../upstreams/definition.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Link } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { allServers, type Exchange, type PreparedExchange, type ServerExchange } from '../exchange.ts';
import type { Aggregate } from '../routing/aggregate.ts';
import { createCall, type SendToServer, timeUpstream } from '../routing/send-to-server.ts';
import type { ServerCallers } from '../routing/server-callers.ts';
import type { TransportStore } from '../sessions/transport-store.ts';
import type { Next, StageRefusal } from '../stage.ts';

type CallerExchange = Exchange & { readonly caller: Caller | undefined; readonly edits: readonly Edit[] };

export interface ForwardParts {
  readonly callers: Callers;
  readonly links: Links;
  readonly saveTransport: TransportStore['save'];
  readonly send: SendToServer;
  readonly serverCallers: ServerCallers;
  /** Answers requests to all servers. */
  readonly aggregate: Aggregate;
}

/** The refusals of links and servers. The tools of Ambit's own server add those of files and state. */
export const forwardRefuses: readonly StageRefusal[] = [
  'UPSTREAM_FAILED',
  'UPSTREAM_TIMEOUT',
  'UPSTREAM_TOO_LARGE',
  'SANDBOX_UNAVAILABLE',
  'SERVER_NOT_APPROVED',
  'LOGIN_REQUIRED',
  'CREDENTIAL_UNUSABLE',
  'OVERLOADED',
  'WORKSPACE_REQUIRED',
  -32601,
  -32602,
];

/** Ends the request pipeline: the message goes to its server, and the answer of the server comes back. */
export function forward(parts: ForwardParts): Next<PreparedExchange, FinalReply> {
  const { callers, links, saveTransport, send, serverCallers, aggregate } = parts;

  async function initialize(exchange: ServerExchange): Promise<FinalReply> {
    const { session, upstream, outgoing, edits, entrance, channel } = exchange;
    // A handshake does nothing for the session and may be shared, so it is not rechecked.
    const { reply, link, version } = await links.handshake(session, upstream, createCall(exchange, undefined));
    if (version === undefined) return reply;
    const { id: sessionId, workspaceId, unavailableWorkspace } = session;
    const place = { sessionId, workspaceId, unavailableWorkspace, server: upstream.name };
    const caller = callers.open({ ...place, version, link, initialize: applyMessageEdits(outgoing, edits) });
    if (entrance === 'stdio') caller.stream = channel;
    await saveTransport(caller);
    return reply.kind === 'message' ? { ...reply, transportId: caller.id } : reply;
  }

  function findLinks(sessionId: string, upstream: Upstream): readonly Link[] {
    return upstream.kind === 'in-process' ? Object.values(upstream.links) : links.listFor(sessionId, upstream.name);
  }

  function notify(exchange: ServerExchange): FinalReply {
    const { message, caller, session, upstream, channel } = exchange;
    if (message.method === 'notifications/cancelled') {
      const requestId = findMember(message.params?.shape, 'requestId');
      if (requestId === undefined) return acceptedReply;
      for (const link of findLinks(session.id, upstream)) {
        link.cancel(caller ?? channel.owner, readRawValue(message.bytes, requestId), message);
      }
    } else if (caller !== undefined && exchange.server === allServers && upstream.kind !== 'in-process') {
      Promise.resolve(serverCallers.find(exchange, upstream))
        .then((child) => child.link.notify(createCall(exchange, child)))
        .catch(() => {});
    } else if (caller !== undefined) {
      caller.link.notify(createCall(exchange, caller));
    } else if (exchange.era === 'modern') {
      links.notifyModern(session, upstream, createCall(exchange, undefined));
    }
    return acceptedReply;
  }

  /** Passes on a message that the server does not answer. */
  async function forwardSilently(exchange: PreparedExchange): Promise<FinalReply> {
    const { message, caller, upstream } = exchange;
    if (message.kind === 'response') return answerPush(exchange);
    if (caller !== undefined && message.method === 'notifications/progress') return forwardPushProgress(exchange);
    return upstream === undefined ? aggregate.notify(exchange) : notify(exchange as ServerExchange);
  }

  // Not an async function: one that returns a promise takes three more turns of the microtask queue, for each call.
  return function forward(exchange) {
    const { message, caller, upstream } = exchange;
    if (message.kind !== 'request') return forwardSilently(exchange);
    if (upstream === undefined) return aggregate.request(exchange);
    const toServer = exchange as ServerExchange;
    const opens = exchange.era === 'handshake' && caller === undefined;
    if (!opens) return send(toServer);
    return upstream.kind !== 'in-process'
      ? timeUpstream(exchange, upstream.name, () => initialize(toServer))
      : initialize(toServer);
  };
}

/** Passes on the answer to a push. Only the caller that was asked can answer, once. */
function answerPush(exchange: CallerExchange): FinalReply {
  const { message, caller } = exchange;
  const push = caller?.pushes.get(message.id ?? '');
  if (caller === undefined || push === undefined) return acceptedReply;
  caller.pushes.delete(message.id as string);
  push.link.answer(push.upstreamId, message, exchange.edits, caller.sessionId);
  return acceptedReply;
}

/** Passes on progress of a push, with the server's own token. */
function forwardPushProgress(exchange: CallerExchange): FinalReply {
  const { message, caller, channel, headers } = exchange;
  const token = findMember(message.params?.shape, 'progressToken');
  const push = token === undefined ? undefined : caller?.pushes.get(readRawValue(message.bytes, token));
  if (token === undefined || push?.progressToken === undefined) return acceptedReply;
  const edits = [...exchange.edits, replaceValue(token, push.progressToken)];
  push.link.notify({ message, edits, channel, headers, caller, acting: undefined, cancelOnGone: false });
  return acceptedReply;
}
