import { AmbitError } from '../../errors.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, readRawValue, readShape, readStringValue } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import { maxSubscriptions, maxUriLength } from '../../protocol/param-checks.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { UpstreamCall } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import type { RequestActor } from '../../upstreams/links/relay/context-attacher.ts';
import { prefixAsker } from '../../upstreams/links/relay/questions.ts';
import {
  allServers,
  type DecidedExchange,
  type Exchange,
  type PreparedExchange,
  type ServerExchange,
} from '../exchange.ts';
import type { StageInfo } from '../stage.ts';
import { createResultReply } from './collect-lists.ts';
import type { ServerCallers } from './server-callers.ts';

const [mark, escaped] = [Buffer.from('inputRequests'), Buffer.from('\\u')];

/** Creates the check that runs when an admitted request is sent. See `RequestActor.recheck`. */
type RecheckCall = (decided: DecidedExchange, server: ServerDefinition, message: Message) => () => Session;

interface SendParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly serverCallers: ServerCallers;
  readonly recheckCall: RecheckCall;
}

/** Sends a request to its server and returns the answer. `shown` is the client's name of the resource. */
export type SendToServer = (exchange: ServerExchange, shown?: string) => Promise<FinalReply>;

export function createSendToServer({ links, callers, serverCallers, recheckCall }: SendParts): SendToServer {
  // Not an async function, as in `forward`.
  function sendTo(exchange: ServerExchange, server: ServerDefinition, shown: string | undefined): Promise<FinalReply> {
    const recheck = recheckCall(exchange, server, exchange.outgoing);
    if (exchange.era !== 'modern') return sendToHandshake(exchange, server, recheck, shown);
    const reply = links.requestModern(exchange.session, server, createCall(exchange, exchange.caller, recheck));
    return exchange.server === allServers ? reply.then((each) => nameAskers(each, server.name)) : reply;
  }

  async function sendToHandshake(
    exchange: ServerExchange,
    server: ServerDefinition,
    recheck: RequestActor['recheck'],
    shown: string | undefined,
  ): Promise<FinalReply> {
    const caller = await serverCallers.find(exchange, server);
    const call = createCall(exchange, caller, recheck);
    return changesSubscription(call.message.method)
      ? requestSubscription(callers, call, caller, shown)
      : caller.link.request(call);
  }

  return (exchange, shown) => {
    const { upstream, era, caller } = exchange;
    if (upstream.kind === 'in-process') return upstream.links[era].request(createCall(exchange, caller));
    return timeUpstream(exchange, upstream.name, () => sendTo(exchange, upstream, shown));
  };
}

/** Creates the call for a link. `caller` is the client of that server. */
export function createCall(
  exchange: PreparedExchange,
  caller: Caller | undefined,
  recheck?: RequestActor['recheck'],
): UpstreamCall {
  const { outgoing, edits, channel, headers, session, principal, correlationId, trace, entry, onWait } = exchange;
  return {
    message: outgoing,
    edits,
    channel,
    headers,
    caller,
    acting: { session, principal, correlationId, trace, recheck, entry, onWait },
    cancelOnGone: exchange.era === 'modern',
    namesAsker: exchange.server === allServers,
  };
}

/**
 * Creates the recheck. A request may wait for a process, a handshake or a list after it was decided. If the session,
 * the configuration or an approval has changed since, the stages check it again.
 */
export function createRecheckCall(resolution: ServerResolution, stages: () => readonly StageInfo[]): RecheckCall {
  return ({ session, decidedAt }, { name }, message) =>
    () => {
      if (resolution.revision() === decidedAt && resolution.isLatest(session)) return session;
      const current = resolution.requireAccess(session, name);
      for (const { recheck } of stages()) recheck?.({ ...current, message });
      return current.session;
    };
}

/** Records the time of a request to a server. */
export function timeUpstream(
  { entry }: Pick<Exchange, 'entry'>,
  server: string,
  ask: () => Promise<FinalReply>,
): Promise<FinalReply> {
  const from = performance.now();
  const note = () => {
    entry.upstreamTiming = { server, from, until: performance.now() };
  };
  // Not an async function, as in `forward`.
  const reply = ask();
  reply.then(note, note);
  return reply;
}

/** Adds the name of the server to each question for a person in an answer that asks for input. */
export function nameAskers(reply: FinalReply, server: string): FinalReply {
  if (reply.kind !== 'message' || !(reply.bytes.includes(mark) || reply.bytes.includes(escaped))) return reply;
  const { bytes, result } = readMessage(reply.bytes);
  const requests = findMember(result?.shape, 'inputRequests');
  if (requests === undefined) return reply;
  const edits: Edit[] = [];
  for (const member of readShape(bytes, requests)?.members ?? []) {
    const request = readShape(bytes, member);
    const params = findMember(request, 'params');
    const method = readStringValue(bytes, findMember(request, 'method')) ?? '';
    if (params !== undefined)
      edits.push(replaceValue(params, prefixAsker(server, method, readRawValue(bytes, params))));
  }
  return { ...reply, bytes: applyEdits(bytes, edits) };
}

/** Tells whether a handshake-era request changes the subscriptions of its client. */
export function changesSubscription(method: string): boolean {
  return method === 'resources/subscribe' || method === 'resources/unsubscribe';
}

/**
 * Sends a subscribe or unsubscribe request. Clients of one process share its subscriptions, so only the last client
 * unsubscribes at the server. `shown` is the client's name of the resource.
 */
async function requestSubscription(
  callers: Callers,
  call: UpstreamCall,
  caller: Caller,
  shown?: string,
): Promise<FinalReply> {
  const { message } = call;
  const uri = readStringValue(message.bytes, findMember(message.params?.shape, 'uri')) ?? '';
  if (message.method === 'resources/subscribe') return subscribe(call, caller, uri, shown ?? uri);
  caller.subscriptions.delete(uri);
  const isShared = callers.byLink(caller.link).some((other) => other !== caller && other.subscriptions.has(uri));
  if (isShared) return createResultReply(message, '{}');
  return caller.link.request(call);
}

async function subscribe(call: UpstreamCall, caller: Caller, uri: string, shown: string): Promise<FinalReply> {
  const before = caller.subscriptions.get(uri);
  assertCanSubscribe(caller, uri);
  // Set before the answer, because the first update may come together with it.
  caller.subscriptions.set(uri, shown);
  let isTaken = false;
  try {
    const reply = await caller.link.request(call);
    isTaken = reply.kind === 'message' && readMessage(reply.bytes).error === undefined;
    return reply;
  } finally {
    if (!isTaken && before === undefined) caller.subscriptions.delete(uri);
  }
}

/** Throws when a handshake-era client cannot subscribe to one more resource. */
function assertCanSubscribe(caller: Caller, uri: string): void {
  const known = caller.subscriptions.has(uri);
  if (uri.length <= maxUriLength && (known || caller.subscriptions.size < maxSubscriptions)) return;
  throw new AmbitError('OVERLOADED', { what: 'The client has reached its limit of subscriptions.' });
}
