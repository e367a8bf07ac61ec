import { AmbitError } from '../../errors.ts';
import type { Reply } from '../../protocol/channel.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, rawAt, shapeAt, stringAt } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import { longestUri, mostSubscriptions } from '../../protocol/param-sizes.ts';
import type { Session } from '../../sessions/session.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Call } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { nameAsker } from '../../upstreams/links/relay/name-asker.ts';
import type { Acting } from '../../upstreams/links/relay/teller.ts';
import { type Arrived, allServers, type DecidedExchange, type Prepared, type ServerExchange } from '../exchange.ts';
import type { StageInfo } from '../stage.ts';
import { createResultReply } from './collect-lists.ts';
import type { ServerCallers } from './server-callers.ts';

const [mark, escaped] = [Buffer.from('inputRequests'), Buffer.from('\\u')];

/** Creates the check that runs when an admitted request is sent. See `Acting.confirm`. */
type RecheckCall = (decided: DecidedExchange, server: ServerDefinition, message: Message) => () => Session;

interface SendParts {
  readonly links: Links;
  readonly callers: Callers;
  readonly serverCallers: ServerCallers;
  readonly recheckCall: RecheckCall;
}

/** Sends a request to its server and returns the answer. `shown` is the client's name of the resource. */
export type SendToServer = (exchange: ServerExchange, shown?: string) => Promise<Reply>;

export function createSendToServer({ links, callers, serverCallers, recheckCall }: SendParts): SendToServer {
  async function sendTo(exchange: ServerExchange, server: ServerDefinition, shown: string | undefined): Promise<Reply> {
    const confirm = recheckCall(exchange, server, exchange.outgoing);
    const isForAllServers = exchange.server === allServers;
    if (exchange.era === 'modern') {
      const reply = links.modern(exchange.session, server, createCall(exchange, exchange.caller, confirm));
      return isForAllServers ? nameAskers(await reply, server.name) : reply;
    }
    const caller = await serverCallers.find(exchange, server);
    const call = createCall(exchange, caller, confirm);
    return changesSubscription(call.message.method)
      ? requestSubscription(callers, call, caller, shown)
      : caller.link.request(call);
  }

  return (exchange, shown) => {
    const { upstream, era, trace, caller } = exchange;
    if (upstream.kind === 'in-process') return upstream.links[era].request(createCall(exchange, caller));
    if (trace?.upstreamSpanId === undefined) return sendTo(exchange, upstream, shown);
    return timeUpstream(exchange, upstream.name, () => sendTo(exchange, upstream, shown));
  };
}

/** Creates the call for a link. `caller` is the client of that server. */
export function createCall(exchange: Prepared, caller: Caller | undefined, confirm?: Acting['confirm']): Call {
  const { outgoing, edits, channel, headers, session, principal, correlationId, trace, entry } = exchange;
  return {
    message: outgoing,
    edits,
    channel,
    headers,
    caller,
    acting: { session, principal, correlationId, trace, confirm, entry },
    cancelOnGone: exchange.era === 'modern',
    namesAsker: exchange.server === allServers,
  };
}

/**
 * Creates the recheck. A request may wait for a process, a handshake or a list after it was decided. If the session,
 * the configuration or an approval has changed since, the stages check it again.
 */
export function createRecheckCall(resolution: Resolution, stages: () => readonly StageInfo[]): RecheckCall {
  return ({ session, decidedAt }, { name }, message) =>
    () => {
      if (resolution.revision() === decidedAt && resolution.isLatest(session)) return session;
      const current = resolution.current(session, name);
      for (const { recheck } of stages()) recheck?.({ ...current, message });
      return current.session;
    };
}

/** Records the time of a request to a server, for its span. */
export async function timeUpstream(
  { entry }: Pick<Arrived, 'entry'>,
  server: string,
  ask: () => Promise<Reply>,
): Promise<Reply> {
  const from = performance.now();
  try {
    return await ask();
  } finally {
    entry.upstreamTiming = { server, from, until: performance.now() };
  }
}

/** Adds the name of the server to each question for a person in an answer that asks for input. */
export function nameAskers(reply: Reply, server: string): Reply {
  if (reply.kind !== 'message' || !(reply.bytes.includes(mark) || reply.bytes.includes(escaped))) return reply;
  const { bytes, result } = readMessage(reply.bytes);
  const requests = memberOf(result?.shape, 'inputRequests');
  if (requests === undefined) return reply;
  const edits: Edit[] = [];
  for (const member of shapeAt(bytes, requests)?.members ?? []) {
    const request = shapeAt(bytes, member);
    const params = memberOf(request, 'params');
    const method = stringAt(bytes, memberOf(request, 'method')) ?? '';
    if (params !== undefined) edits.push(replaceValue(params, nameAsker(server, method, rawAt(bytes, params))));
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
async function requestSubscription(callers: Callers, call: Call, caller: Caller, shown?: string): Promise<Reply> {
  const { message } = call;
  const uri = stringAt(message.bytes, memberOf(message.params?.shape, 'uri')) ?? '';
  if (message.method === 'resources/subscribe') return subscribe(call, caller, uri, shown ?? uri);
  caller.subscriptions.delete(uri);
  const isShared = callers.ofLink(caller.link).some((other) => other !== caller && other.subscriptions.has(uri));
  if (isShared) return createResultReply(message, '{}');
  return caller.link.request(call);
}

async function subscribe(call: Call, caller: Caller, uri: string, shown: string): Promise<Reply> {
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
  if (uri.length <= longestUri && (known || caller.subscriptions.size < mostSubscriptions)) return;
  throw new AmbitError('OVERLOADED', { what: 'A client cannot hold more subscriptions, or longer ones.' });
}
