import type { Channel, FinalReply } from '../../../protocol/channel.ts';
import { composeNotification, composeResult } from '../../../protocol/compose-message.ts';
import { findMember, readRawValue, readStringValue } from '../../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readErrorCode, readMessage } from '../../../protocol/message.ts';
import { declaresTasks, missingTasksError } from '../../../protocol/modern-envelope.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import {
  askUpstream,
  type BaseLink,
  closedChannel,
  type Handshake,
  type Link,
  type OnServerMessage,
  type ServerMessage,
  type UpstreamCall,
} from '../link.ts';
import { subscriptionKey } from '../relay/towards-client.ts';
import { type Binding, bindToSession, openTaskId } from '../relay/towards-upstream.ts';
import { sessionIdOf } from '../stdio/sharers.ts';
import { explainEffect, noReplyError } from '../upstream-errors.ts';
import { createBridgedTasks, toModernTaskAnswer } from './bridged-tasks.ts';
import { removeEnvelope, removeTaskSupport, toDiscoverResult, toModernAnswer } from './era-translation.ts';
import { createHeldCalls } from './held-calls.ts';

/** A link that makes its handshake itself, for a client that knows none. */
interface SelfOpenedLink {
  readonly link: BaseLink;
  /** The handshake with the upstream; known once the link is ready. */
  handshake(): Handshake | undefined;
}

interface ListenStream {
  readonly sessionId: string;
  readonly clientId: string;
  readonly channel: Channel;
  readonly wants: ReadonlySet<string>;
  readonly resources: ReadonlySet<string>;
  /** The client's ids of the tasks that it wants to hear about, by the server's ids. */
  readonly tasks: ReadonlyMap<string, string>;
  readonly call: UpstreamCall;
  /** True once the stream has been acknowledged: nothing may come before that. */
  isAcknowledged: boolean;
  /** Ends the stream of a client that has left. */
  end(): void;
  /** Ends the stream because the link ends. */
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
/** A channel that stays open as long as the link; its messages reach the bridge as messages of the server. */
const openChannel: Channel = { ...closedChannel, owner: {}, isGone: () => false };
const callerGone = readMessage(
  composeNotification('notifications/cancelled', { requestId: 0, reason: 'the caller has disconnected' }),
);

/**
 * Creates a link for modern clients on top of a link to a handshake-era server. With `hidesTaskTools`, lists leave out the
 * tools that run only as tasks.
 */
export function bridgeToHandshake(
  binding: Binding,
  onServerMessage: OnServerMessage,
  connect: (onServerMessage: OnServerMessage) => SelfOpenedLink,
  hidesTaskTools = false,
): Link {
  const held = createHeldCalls(binding);
  let level: string | undefined;
  let runningCalls = 0;
  let hasStream = false;

  const base = connect((sent) => {
    streams.notify(sent);
    if (sent.message.method === 'notifications/tools/list_changed') tasks.forgetTools();
    // Modern clients hear about a task on a listen stream only.
    if (sent.message.method === 'notifications/tasks/status')
      return Promise.resolve({ delivered: false, full: undefined });
    return onServerMessage({ ...sent, link: bridge, holdQuestion: (asked) => tasks.hold(asked) || held.hold(asked) });
  });
  const tasks = createBridgedTasks(binding, base.link, openChannel);
  const streams = createListenStreams(base.link, binding, tasks.announce);

  async function ensureHandshake(call?: UpstreamCall): Promise<Handshake> {
    await base.link.ready(call?.acting?.correlationId);
    const handshake = base.handshake();
    if (handshake === undefined) throw noReplyError(base.link.server, 'initialize');
    // Over HTTP a server sends on this stream what belongs to no request.
    if (!hasStream) base.link.openStream(openChannel);
    hasStream = true;
    return handshake;
  }

  /** Sets the log level of the upstream: the handshake era has one for all, the modern era one for each request. */
  async function setLevel(wanted: string | undefined): Promise<void> {
    if (wanted === undefined || wanted === level) return;
    const { result } = await ensureHandshake();
    if (!('logging' in ((JSON.parse(result) as { capabilities?: object }).capabilities ?? {}))) return;
    level = wanted;
    await askUpstream(base.link, 'logging/setLevel', JSON.stringify({ level: wanted })).catch(() => {});
  }

  async function forward(given: UpstreamCall): Promise<FinalReply> {
    // The edits of the pipeline come first: an answer inside the request may go on without it.
    const edited = applyMessageEdits(given.message, given.edits);
    const handshake = await ensureHandshake(given).catch((error: Error) => {
      throw explainEffect(error, edited.method, false);
    });
    if (edited.method.startsWith('tasks/')) return tasks.request({ ...given, message: edited, edits: [] }, handshake);
    const message = edited.method === 'tools/call' ? await tasks.prepareCall(edited, handshake) : edited;
    const call = { ...given, message, edits: removeEnvelope(message) };
    const wanted = readStringValue(message.bytes, findMember(message.meta, 'io.modelcontextprotocol/logLevel'));
    if (wanted !== level) await setLevel(wanted);
    const resumed = held.resume(call, base.link.pending);
    // A resumed call began on another channel, so the new one has to be watched too.
    if (resumed !== undefined)
      call.channel.onGone(() => base.link.cancel(call.channel.owner, message.id as string, callerGone));
    const reply = (await resumed) ?? (await base.link.request(call));
    if (reply.kind !== 'message') return reply;
    const answer = readMessage(reply.bytes);
    const status = readErrorCode(answer) === '-32601' ? 404 : 200;
    const task = message === edited ? undefined : toModernTaskAnswer(answer);
    if (task !== undefined) return { ...reply, bytes: task, status };
    const bytes = toModernAnswer(answer, message.method);
    return {
      ...reply,
      bytes: message.method === 'tools/list' ? removeTaskSupport(readMessage(bytes), hidesTaskTools) : bytes,
      status,
    };
  }

  const bridge: Link = {
    sessionId: base.link.sessionId,
    scopeKey: base.link.scopeKey,
    server: base.link.server,
    era: 'modern',
    callerCount: () => 0,
    isBusy: () => base.link.isBusy() || runningCalls > 0,
    isClosed: () => base.link.isClosed(),
    async request(call) {
      const { method, id } = call.message;
      if (removedMethods.has(method)) throw new ProtocolError(-32601, 404, 'Method not found');
      if (method === 'server/discover') {
        const { result } = await ensureHandshake(call);
        return { kind: 'message', bytes: composeResult(id as string, toDiscoverResult(result)), status: 200 };
      }
      if (method === 'subscriptions/listen') return streams.open(call, () => ensureHandshake(call));
      runningCalls++;
      return forward(call).finally(() => {
        runningCalls--;
      });
    },
    notify() {},
    answer() {},
    cancel(from, requestId, message) {
      streams.end(({ channel, clientId }) => channel.owner === from && clientId === requestId);
      base.link.cancel(from, requestId, message);
    },
    attach() {},
    detach() {},
    listen() {},
    dropSession(sessionId, reason) {
      held.dropSession(sessionId);
      tasks.dropSession(sessionId);
      streams.end((stream) => stream.sessionId === sessionId);
      base.link.dropSession(sessionId, reason);
    },
    holdsCall: (call) => held.holds(call),
    sweep(now) {
      held.sweep(now, base.link.pending);
      tasks.sweep(now);
      base.link.sweep(now);
    },
    async close(reason) {
      streams.close();
      await base.link.close(reason);
    },
  };
  return bridge;
}

/** The listen streams of modern clients. The link below has one subscription for all of them. */
function createListenStreams(
  link: BaseLink,
  binding: Binding,
  announceTask: (call: UpstreamCall, taskId: string) => Promise<void>,
) {
  const streams = new Map<string, ListenStream>();
  let count = 0;

  function notifyTask({ bytes, params }: Message): void {
    const taskId = readStringValue(bytes, findMember(params?.shape, 'taskId')) ?? '';
    for (const { tasks, call, isAcknowledged } of streams.values()) {
      const sealed = tasks.get(taskId);
      if (sealed !== undefined && isAcknowledged) announceTask(call, sealed).catch(() => {});
    }
  }

  function notify({ message }: ServerMessage): void {
    if (message.method === 'notifications/tasks/status') notifyTask(message);
    const change = listChanges[message.method];
    const uri =
      message.method === 'notifications/resources/updated'
        ? readStringValue(message.bytes, findMember(message.params?.shape, 'uri'))
        : undefined;
    if (change === undefined && uri === undefined) return;
    for (const stream of streams.values()) {
      const isWanted = change === undefined ? stream.resources.has(uri as string) : stream.wants.has(change);
      if (!isWanted || !stream.isAcknowledged) continue;
      const params = uri === undefined ? {} : { uri };
      stream.channel.emit(createTaggedNotification(message.method, params, stream.clientId));
    }
  }

  /** Opens the ids of tasks. Those that the session does not have are left out. */
  function openTasks(call: UpstreamCall, taskIds: readonly unknown[]): Map<string, string> {
    const owner = bindToSession(binding, sessionIdOf(call));
    const opened = new Map<string, string>();
    for (const sealed of taskIds) {
      const taskId = typeof sealed === 'string' ? openTaskId(owner, sealed) : undefined;
      if (taskId !== undefined) opened.set(taskId, sealed as string);
    }
    return opened;
  }

  async function open(call: UpstreamCall, ready: () => Promise<unknown>): Promise<FinalReply> {
    const { message } = call;
    const asked = findMember(message.params?.shape, 'notifications');
    const filter: Record<string, unknown> = asked === undefined ? {} : JSON.parse(readRawValue(message.bytes, asked));
    await ready();
    const wants = new Set(Object.values(listChanges).filter((name) => filter[name] === true));
    const { resourceSubscriptions: named } = filter;
    const uris = Array.isArray(named) ? [...new Set(named as string[])] : [];
    const { taskIds } = filter;
    if (taskIds !== undefined && !declaresTasks(message)) throw missingTasksError();
    const tasks = openTasks(call, Array.isArray(taskIds) ? (taskIds as unknown[]) : []);
    const clientId = message.id as string;
    const { channel } = call;
    const key = String(++count);
    const resources = new Set<string>();
    const stream: ListenStream = {
      sessionId: sessionIdOf(call),
      clientId,
      channel,
      wants,
      resources,
      tasks,
      call: { ...call, message, edits: [] },
      isAcknowledged: false,
      end() {},
      close() {},
    };
    streams.set(key, stream);
    const ended = new Promise<FinalReply>((settle) => {
      stream.end = () => {
        if (!streams.delete(key)) return;
        void unsubscribeAll(resources);
        settle({ kind: 'accepted' });
      };
      stream.close = () => {
        streams.delete(key);
        const end = { resultType: 'complete', _meta: { [subscriptionKey]: JSON.parse(clientId) as unknown } };
        settle({ kind: 'message', bytes: composeResult(clientId, JSON.stringify(end)) });
      };
    });
    channel.onGone(() => stream.end());
    for (const uri of uris) {
      if (!streams.has(key)) return ended;
      resources.add(uri);
      await subscribe('resources/subscribe', uri);
    }
    if (!streams.has(key)) return ended;
    const honoured = {
      ...Object.fromEntries([...wants].map((name) => [name, true])),
      ...(uris.length > 0 ? { resourceSubscriptions: uris } : {}),
      ...(tasks.size > 0 ? { taskIds: [...tasks.values()] } : {}),
    };
    const method = 'notifications/subscriptions/acknowledged';
    channel.emit(createTaggedNotification(method, { notifications: honoured }, clientId));
    stream.isAcknowledged = true;
    return ended;
  }

  /** Unsubscribes one by one: many requests at once would take the room of other calls. */
  async function unsubscribeAll(resources: ReadonlySet<string>): Promise<void> {
    for (const uri of resources) {
      if (link.isClosed()) return;
      const isNeeded = [...streams.values()].some((stream) => stream.resources.has(uri));
      if (!isNeeded) await subscribe('resources/unsubscribe', uri);
    }
  }

  async function subscribe(method: string, uri: string): Promise<void> {
    await askUpstream(link, method, JSON.stringify({ uri })).catch(() => {});
  }

  return {
    open,
    /** Sends a change to the streams that were opened for it, under the id of each. */
    notify,
    end(fits: (stream: ListenStream) => boolean): void {
      for (const stream of streams.values()) if (fits(stream)) stream.end();
    },
    close(): void {
      for (const stream of [...streams.values()]) stream.close();
    },
  };
}

function createTaggedNotification(method: string, params: Record<string, unknown>, clientId: string): Buffer {
  return composeNotification(method, { ...params, _meta: { [subscriptionKey]: JSON.parse(clientId) as unknown } });
}
