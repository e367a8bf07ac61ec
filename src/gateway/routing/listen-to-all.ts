import { setTimeout as pause } from 'node:timers/promises';
import type { Channel, FinalReply } from '../../protocol/channel.ts';
import { composeNotification } from '../../protocol/compose-message.ts';
import { findMember, readElements, readRawValue, readStringValue } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { prefixAsker } from '../../upstreams/links/relay/questions.ts';
import type { Seals } from '../../upstreams/links/relay/seals.ts';
import { subscriptionKey } from '../../upstreams/links/relay/towards-client.ts';
import { findListenedTasks, openTaskId } from '../../upstreams/links/relay/towards-upstream.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { RouteTarget } from '../stages/route-tool.ts';
import type { ListenStream } from './listen-streams.ts';
import { inboxUri, type OwnInbox } from './own-inbox.ts';
import { asksForInbox } from './own-server.ts';
import { addServerName } from './resource-addresses.ts';
import { createDescribedCall } from './server-callers.ts';

/** The acknowledgement waits this long. A server that is slower is still listened to. */
const deadlineMs = 5000;
const listNotifications = {
  toolsListChanged: 'notifications/tools/list_changed',
  promptsListChanged: 'notifications/prompts/list_changed',
  resourcesListChanged: 'notifications/resources/list_changed',
} as const;

interface ListenParts {
  readonly links: Links;
  readonly catalog: Catalog;
  readonly resolution: ServerResolution;
  readonly seals: Seals;
  /** Finds the server of each URI; URIs without a server are left out. */
  findAll(uris: readonly string[]): Promise<ReadonlyMap<string, RouteTarget>>;
  readonly stream: ListenStream;
  readonly inbox: Pick<OwnInbox, 'isVisible' | 'watch'>;
}

/**
 * Serves the listen stream of a modern client over all servers. Servers that have not been used are not started for it.
 */
export async function listenToAll(exchange: PreparedExchange, parts: ListenParts): Promise<FinalReply> {
  const { message, channel, session } = exchange;
  const asked = findMember(message.params?.shape, 'notifications');
  const filter = (asked === undefined ? {} : JSON.parse(readRawValue(message.bytes, asked))) as Record<string, unknown>;
  const wanted = Object.entries(listNotifications).filter(([name]) => filter[name] === true);
  const uris = Array.isArray(filter.resourceSubscriptions)
    ? [...new Set(filter.resourceSubscriptions as string[])].filter((uri) => uri !== inboxUri)
    : [];
  const clientId = JSON.parse(message.id as string) as unknown;
  const emitNotification = (method: string, params: Record<string, unknown>) =>
    channel.emit(composeNotification(method, { ...params, _meta: { [subscriptionKey]: clientId } }));

  let over = false;
  const gone: (() => void)[] = [];
  const onOver = (listener: () => void) => (over ? listener() : void gone.push(listener));
  const ended = new Promise<FinalReply>((settle) => {
    const end = () => {
      over = true;
      for (const listener of gone.splice(0)) listener();
      settle({ kind: 'accepted' });
    };
    channel.onGone(end);
    parts.stream.end = end;
  });

  const honoured: Record<string, unknown> = Object.fromEntries(wanted.map(([name]) => [name, true]));
  /** The client's names of a resource, by server and by the server's own address. */
  const byServer = new Map<string, Map<string, string[]>>();
  const found = uris.length === 0 ? new Map<string, RouteTarget>() : await parts.findAll(uris);
  for (const [uri, { server, name }] of found) {
    const names = byServer.get(server.name) ?? new Map<string, string[]>();
    byServer.set(server.name, names.set(name, [...(names.get(name) ?? []), uri]));
  }
  if (over) return ended;
  const hearsInbox = asksForInbox(message) && parts.inbox.isVisible(session);
  if (found.size > 0 || hearsInbox) {
    honoured.resourceSubscriptions = [...found.keys(), ...(hearsInbox ? [inboxUri] : [])];
  }
  const tasksByServer = groupTasks(exchange, parts.seals);
  /** The tasks that the servers report on. */
  const heardTasks = new Set<string>();

  // The acknowledgement comes first, and only when every server listens, so that no later change is missed.
  let early: (() => void)[] | undefined = [];
  const notify = (method: string, params: Record<string, unknown>) => {
    if (early === undefined) return emitNotification(method, params);
    early.push(() => emitNotification(method, params));
    return true;
  };
  const createChannel = (server: string, listening: () => void): Channel => ({
    owner: {},
    isGone: () => over || channel.isGone(),
    emit(bytes) {
      const said = readMessage(bytes);
      if (said.method === 'notifications/subscriptions/acknowledged') {
        for (const taskId of readTaskIds(said)) heardTasks.add(taskId);
        listening();
      }
      if (said.method === 'notifications/tasks') return notify(said.method, readTaskNotice(said, server));
      if (said.method === 'notifications/resources/updated') {
        const uri = readStringValue(said.bytes, findMember(said.params?.shape, 'uri')) ?? '';
        // A server may report a part of what was subscribed to.
        const shown = byServer.get(server)?.get(uri) ?? [addServerName(server, uri)];
        return shown.map((each) => notify(said.method, { uri: each })).every((taken) => taken);
      }
      const change = Object.values(listNotifications).find((method) => method === said.method);
      return change !== undefined && wanted.some(([, method]) => method === change) ? notify(change, {}) : true;
    },
    onDrain: (listener) => channel.onDrain(listener),
    onGone: onOver,
    close() {},
  });

  if (hearsInbox)
    onOver(parts.inbox.watch(session.id, () => void notify('notifications/resources/updated', { uri: inboxUri })));

  /** The servers that report their changes on a stream. */
  const attached = new Map<string, ServerDefinition>();
  const attachServer = (server: ServerDefinition) =>
    new Promise<void>((listening) => {
      const names = byServer.get(server.name);
      const tasks = tasksByServer.get(server.name);
      const notifications = {
        ...Object.fromEntries(wanted.map(([name]) => [name, true])),
        ...(names === undefined ? {} : { resourceSubscriptions: [...names.keys()] }),
        ...(tasks === undefined ? {} : { taskIds: tasks }),
      };
      const params = JSON.stringify({ notifications });
      attached.set(server.name, server);
      parts.links
        .requestModern(session, server, {
          ...createDescribedCall(message, 'subscriptions/listen', params, createChannel(server.name, listening)),
          acting: { session, correlationId: exchange.correlationId },
        })
        .catch(() => {})
        .finally(() => {
          if (attached.get(server.name) === server) attached.delete(server.name);
          listening();
        });
    });
  const used = exchange.available.filter(
    (server) =>
      byServer.has(server.name) ||
      tasksByServer.has(server.name) ||
      parts.links.listFor(session.id, server.name).length > 0,
  );
  const names = new Set(exchange.available.map((server) => server.name));
  const stop = parts.catalog.onChange(({ server: name, isOwnNotice, concerns }) => {
    const { server } = parts.resolution.find(session, name);
    if (server !== undefined && !concerns(parts.resolution.listOwnerFor(session, server), sessionScopeKey(session)))
      return;
    const gone = server === undefined && names.delete(name);
    if (server !== undefined) names.add(name);
    else if (!gone) return;
    if (attached.has(name) && !isOwnNotice) return;
    for (const [, method] of wanted) notify(method, {});
    // The stream of a replaced server ends; the new server is listened to instead.
    const replaced = attached.has(name) && attached.get(name) !== server;
    if (replaced) attached.delete(name);
    if (replaced && server !== undefined) void attachServer(server);
  });
  parts.stream.announceChange = () => {
    for (const name of names) if (parts.resolution.find(session, name).server === undefined) names.delete(name);
    for (const [, method] of wanted) notify(method, {});
  };
  onOver(stop);
  await Promise.race([Promise.all(used.map(attachServer)), ended, pause(deadlineMs, undefined, { ref: false })]);
  if (over) return ended;
  if (heardTasks.size > 0) honoured.taskIds = [...heardTasks];
  emitNotification('notifications/subscriptions/acknowledged', { notifications: honoured });
  for (const each of early) each();
  early = undefined;
  return ended;
}

/** Groups the tasks that a client wants to hear about by server. Tasks that the session does not have are left out. */
function groupTasks(exchange: PreparedExchange, seals: Seals): ReadonlyMap<string, string[]> {
  const { message, session, available } = exchange;
  const groups = new Map<string, string[]>();
  for (const sealed of new Set(readTaskIds(message))) {
    const owner = available.find(({ name: server }) => openTaskId({ seals, sessionId: session.id, server }, sealed));
    if (owner !== undefined) groups.set(owner.name, [...(groups.get(owner.name) ?? []), sealed]);
  }
  return groups;
}

/** Reads a notification about a task. Questions to a person get the name of the server. */
function readTaskNotice({ bytes, params }: Message, server: string): Record<string, unknown> {
  const { inputRequests, ...task } = JSON.parse(
    params === undefined ? '{}' : readRawValue(bytes, params),
  ) as TaskNotice;
  if (inputRequests === undefined) return task;
  const named = Object.entries(inputRequests).map(([key, { method, params: asked = {}, ...rest }]) => {
    const shown: unknown = JSON.parse(prefixAsker(server, method, JSON.stringify(asked)));
    return [key, { ...rest, method, params: shown }];
  });
  return { ...task, inputRequests: Object.fromEntries(named) };
}

interface TaskNotice extends Record<string, unknown> {
  readonly inputRequests?: Readonly<Record<string, { readonly method: string; readonly params?: object }>>;
}

function readTaskIds(message: Message): string[] {
  const list = findListenedTasks(message);
  if (list === undefined) return [];
  return readElements(message.bytes, list).flatMap(
    (span) => readStringValue(message.bytes, { ...list, ...span, shape: undefined }) ?? [],
  );
}
