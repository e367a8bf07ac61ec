import { AmbitError } from '../../../errors.ts';
import type { Channel, Reply } from '../../../protocol/channel.ts';
import { notificationMessage, resultMessage } from '../../../protocol/compose.ts';
import { memberOf, rawAt, stringAt } from '../../../protocol/json/scan.ts';
import { edited, readMessage } from '../../../protocol/message.ts';
import { ProtocolFault } from '../../../protocol/protocol-fault.ts';
import type { BaseLink, Call, Handshake, Link, OnServerMessage, Sent } from '../link.ts';
import type { Binding } from '../relay/towards-upstream.ts';
import { sessionIdOf } from '../stdio/sharers.ts';
import { askUpstream } from './ask-upstream.ts';
import { removeEnvelope, toDiscoverResult, toModernAnswer } from './era-translation.ts';
import { createHeldCalls } from './held-calls.ts';

/** A link that shakes hands by itself. */
export interface SelfOpenedLink {
  readonly link: BaseLink;
  /** What the upstream said of itself; known once the link is ready. */
  ensureHandshake(): Handshake | undefined;
}

interface ListenStream {
  readonly sessionId: string;
  readonly clientId: string;
  readonly channel: Channel;
  readonly wants: ReadonlySet<string>;
  readonly resources: ReadonlySet<string>;
  /** It has been acknowledged: nothing comes before that. */
  readonly heard: boolean;
  /** The client has left. */
  end(): void;
  /** The link ends. */
  close(): void;
}

const removedMethods = new Set([
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
]);
const listChanges: Readonly<Record<string, string>> = {
  'notifications/tools/list_changed': 'toolsListChanged',
  'notifications/prompts/list_changed': 'promptsListChanged',
  'notifications/resources/list_changed': 'resourcesListChanged',
};
/** A channel that stands as long as the link: whatever comes on it is heard by `hear`. */
const openChannel: Channel = {
  owner: {},
  isGone: () => false,
  emit: () => true,
  onDrain() {},
  onGone() {},
  close() {},
};
const callerGone = readMessage(
  notificationMessage('notifications/cancelled', { requestId: 0, reason: 'the caller is gone' }),
);
const unopened = { end() {}, close() {} };
const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';

/** A modern client in front of a server of the handshake era. */
export function bridgeToHandshake(
  binding: Binding,
  onServerMessage: OnServerMessage,
  connect: (hear: OnServerMessage) => SelfOpenedLink,
): Link {
  const held = createHeldCalls(binding);
  const listeners = new Map<string, ListenStream>();
  let level: string | undefined;
  let count = 0;
  let underWay = 0;

  const base = connect((sent) => hear(sent));
  let streaming = false;

  async function handshake(): Promise<Handshake> {
    await base.link.ready();
    const shaken = base.ensureHandshake();
    if (shaken === undefined) throw new AmbitError('UPSTREAM_FAILED');
    // Over HTTP a server asks and tells on this stream what it does not connect with a request.
    if (!streaming) base.link.openStream(openChannel);
    streaming = true;
    return shaken;
  }

  function hear(sent: Sent): ReturnType<OnServerMessage> {
    notifyListeners(sent);
    return onServerMessage({ ...sent, link: bridge, hold: (asked) => held.hold(asked) });
  }

  /** What a listen stream was opened for goes there, under the name of that stream. */
  function notifyListeners({ message }: Sent): void {
    const change = listChanges[message.method];
    const uri =
      message.method === 'notifications/resources/updated'
        ? stringAt(message.bytes, memberOf(message.params?.shape, 'uri'))
        : undefined;
    if (change === undefined && uri === undefined) return;
    for (const listener of listeners.values()) {
      const wanted = change === undefined ? listener.resources.has(uri as string) : listener.wants.has(change);
      if (wanted && listener.heard)
        listener.channel.emit(
          createTaggedNotification(message.method, uri === undefined ? {} : { uri }, listener.clientId),
        );
    }
  }

  async function openListener(call: Call): Promise<Reply> {
    const { message } = call;
    const asked = memberOf(message.params?.shape, 'notifications');
    const filter = (asked === undefined ? {} : JSON.parse(rawAt(message.bytes, asked))) as Record<string, unknown>;
    await handshake();
    const wants = new Set(Object.values(listChanges).filter((name) => filter[name] === true));
    const uris = Array.isArray(filter.resourceSubscriptions)
      ? [...new Set(filter.resourceSubscriptions as string[])]
      : [];
    const clientId = message.id as string;
    const { channel } = call;
    const key = String(++count);
    const resources = new Set<string>();
    const listener = { sessionId: sessionIdOf(call), clientId, channel, wants, resources, heard: false, ...unopened };
    listeners.set(key, listener);
    const ended = new Promise<Reply>((settle) => {
      listener.end = () => {
        if (!listeners.delete(key)) return;
        void unsubscribeAll(resources);
        settle({ kind: 'accepted' });
      };
      listener.close = () => {
        listeners.delete(key);
        const end = { resultType: 'complete', _meta: { [subscriptionKey]: JSON.parse(clientId) as unknown } };
        settle({ kind: 'message', bytes: resultMessage(clientId, JSON.stringify(end)) });
      };
    });
    channel.onGone(() => listener.end());
    for (const uri of uris) {
      if (!listeners.has(key)) return ended;
      resources.add(uri);
      await subscribe('resources/subscribe', uri);
    }
    if (!listeners.has(key)) return ended;
    const honoured = {
      ...Object.fromEntries([...wants].map((name) => [name, true])),
      ...(uris.length > 0 ? { resourceSubscriptions: uris } : {}),
    };
    channel.emit(
      createTaggedNotification('notifications/subscriptions/acknowledged', { notifications: honoured }, clientId),
    );
    listener.heard = true;
    return ended;
  }

  /** One after the other: many at once would take the place of other calls. */
  async function unsubscribeAll(resources: ReadonlySet<string>): Promise<void> {
    for (const uri of resources) {
      if (base.link.isClosed()) return;
      const shared = [...listeners.values()].some((listener) => listener.resources.has(uri));
      if (!shared) await subscribe('resources/unsubscribe', uri);
    }
  }

  async function subscribe(method: string, uri: string): Promise<void> {
    await askUpstream(base.link, method, JSON.stringify({ uri })).catch(() => {});
  }

  /** The handshake era has one log level for all; the modern one a level for each request. */
  async function setLevel(wanted: string | undefined): Promise<void> {
    if (wanted === undefined || wanted === level) return;
    const { result } = await handshake();
    if (!('logging' in ((JSON.parse(result) as { capabilities?: object }).capabilities ?? {}))) return;
    level = wanted;
    await askUpstream(base.link, 'logging/setLevel', JSON.stringify({ level: wanted })).catch(() => {});
  }

  async function forward(given: Call): Promise<Reply> {
    // What the pipeline took out is gone before anything is looked for: an answer may go on alone, without its request.
    const message = edited(given.message, given.edits);
    const call = { ...given, message, edits: removeEnvelope(message) };
    await handshake();
    const wanted = stringAt(message.bytes, memberOf(message.meta, 'io.modelcontextprotocol/logLevel'));
    if (wanted !== level) await setLevel(wanted);
    const resumed = held.resume(call, base.link.pending);
    // The call is older than this client's return, so its channel has to be watched anew.
    if (resumed !== undefined)
      call.channel.onGone(() => base.link.cancel(call.channel.owner, message.id as string, callerGone));
    const reply = (await resumed) ?? (await base.link.request(call));
    if (reply.kind !== 'message') return reply;
    const answer = readMessage(reply.bytes);
    const missing =
      answer.error !== undefined &&
      rawAt(answer.bytes, memberOf(answer.error.shape, 'code') ?? answer.error) === '-32601';
    return { ...reply, bytes: toModernAnswer(answer, message.method), status: missing ? 404 : 200 };
  }

  const bridge: Link = {
    sessionId: base.link.sessionId,
    place: base.link.place,
    server: base.link.server,
    era: 'modern',
    attached: () => 0,
    isBusy: () => base.link.isBusy() || underWay > 0,
    isClosed: () => base.link.isClosed(),
    async request(call) {
      const { method, id } = call.message;
      if (removedMethods.has(method)) throw new ProtocolFault(-32601, 404, 'Method not found');
      if (method === 'server/discover') {
        const { result } = await handshake();
        return { kind: 'message', bytes: resultMessage(id as string, toDiscoverResult(result)), status: 200 };
      }
      if (method === 'subscriptions/listen') return openListener(call);
      underWay++;
      return forward(call).finally(() => {
        underWay--;
      });
    },
    notify() {},
    answer() {},
    cancel(from, requestId, message) {
      for (const { channel, clientId, end } of listeners.values()) {
        if (channel.owner === from && clientId === requestId) end();
      }
      base.link.cancel(from, requestId, message);
    },
    attach() {},
    detach() {},
    listen() {},
    leave(sessionId, reason) {
      held.dropSession(sessionId);
      for (const listener of listeners.values()) if (listener.sessionId === sessionId) listener.end();
      base.link.leave(sessionId, reason);
    },
    holdsCall: (call) => held.holds(call),
    tend(now) {
      held.sweep(now, base.link.pending);
      base.link.tend(now);
    },
    async close(reason) {
      for (const listener of [...listeners.values()]) listener.close();
      await base.link.close(reason);
    },
  };
  return bridge;
}

function createTaggedNotification(method: string, params: Record<string, unknown>, clientId: string): Buffer {
  return notificationMessage(method, { ...params, _meta: { [subscriptionKey]: JSON.parse(clientId) as unknown } });
}
