import { setTimeout as pause } from 'node:timers/promises';
import type { Channel, Reply } from '../../protocol/channel.ts';
import { notificationMessage } from '../../protocol/compose.ts';
import { memberOf, rawAt, stringAt } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { describedCall } from './ask-as.ts';
import type { Found } from './find-server.ts';
import type { ForAll } from './for-all.ts';
import { namingServer } from './public-uri.ts';

/** A server that is not listening by then may still come to it. */
const deadlineMs = 5000;
const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';
const lists = {
  toolsListChanged: 'notifications/tools/list_changed',
  promptsListChanged: 'notifications/prompts/list_changed',
  resourcesListChanged: 'notifications/resources/list_changed',
} as const;

export interface ListenParts {
  readonly links: Links;
  readonly catalog: Catalog;
  readonly resolution: Resolution;
  /** Which server each of the URIs belongs to; those that belong to none are left out. */
  findAll(uris: readonly string[]): Promise<ReadonlyMap<string, Found>>;
  onCancel(end: () => void): void;
  onBoundsChange(tellAll: () => void): void;
}

/** A modern client's listen stream over all servers. Servers that have not been used are not started for it. */
export async function listenToAll(exchange: ForAll, parts: ListenParts): Promise<Reply> {
  const { message, channel, session } = exchange;
  const asked = memberOf(message.params?.shape, 'notifications');
  const filter = (asked === undefined ? {} : JSON.parse(rawAt(message.bytes, asked))) as Record<string, unknown>;
  const wanted = Object.entries(lists).filter(([name]) => filter[name] === true);
  const uris = Array.isArray(filter.resourceSubscriptions)
    ? [...new Set(filter.resourceSubscriptions as string[])]
    : [];
  const clientId = JSON.parse(message.id as string) as unknown;
  const say = (method: string, params: Record<string, unknown>) =>
    channel.emit(notificationMessage(method, { ...params, _meta: { [subscriptionKey]: clientId } }));

  let over = false;
  const gone: (() => void)[] = [];
  const whenOver = (listener: () => void) => (over ? listener() : void gone.push(listener));
  const ended = new Promise<Reply>((settle) => {
    const end = () => {
      over = true;
      for (const listener of gone.splice(0)) listener();
      settle({ kind: 'accepted' });
    };
    channel.onGone(end);
    parts.onCancel(end);
  });

  const honoured: Record<string, unknown> = Object.fromEntries(wanted.map(([name]) => [name, true]));
  /** By the name of the server and its own address, what the client calls the resource. */
  const byServer = new Map<string, Map<string, string[]>>();
  const found = uris.length === 0 ? new Map<string, Found>() : await parts.findAll(uris);
  for (const [uri, { server, name }] of found) {
    const names = byServer.get(server.name) ?? new Map<string, string[]>();
    byServer.set(server.name, names.set(name, [...(names.get(name) ?? []), uri]));
  }
  if (over) return ended;
  if (found.size > 0) honoured.resourceSubscriptions = [...found.keys()];

  // The acknowledgement comes first of all, and only when every server listens: what comes after it is not missed.
  let early: (() => void)[] | undefined = [];
  const tell = (method: string, params: Record<string, unknown>) => {
    if (early === undefined) return say(method, params);
    early.push(() => say(method, params));
    return true;
  };
  const through = (server: string, listening: () => void): Channel => ({
    owner: {},
    isGone: () => over || channel.isGone(),
    emit(bytes) {
      const said = readMessage(bytes);
      if (said.method === 'notifications/subscriptions/acknowledged') listening();
      if (said.method === 'notifications/resources/updated') {
        const uri = stringAt(said.bytes, memberOf(said.params?.shape, 'uri')) ?? '';
        // A server may tell of a part of what was subscribed to.
        const shown = byServer.get(server)?.get(uri) ?? [namingServer(server, uri)];
        return shown.map((each) => tell(said.method, { uri: each })).every((taken) => taken);
      }
      const change = Object.values(lists).find((method) => method === said.method);
      return change !== undefined && wanted.some(([, method]) => method === change) ? tell(change, {}) : true;
    },
    onDrain: (listener) => channel.onDrain(listener),
    onGone: whenOver,
    close() {},
  });

  /** The servers that tell of their changes themselves, each with the stream they do it on. */
  const attached = new Map<string, ServerDefinition>();
  const attach = (server: ServerDefinition) =>
    new Promise<void>((listening) => {
      const names = byServer.get(server.name);
      const notifications = {
        ...Object.fromEntries(wanted.map(([name]) => [name, true])),
        ...(names === undefined ? {} : { resourceSubscriptions: [...names.keys()] }),
      };
      const params = JSON.stringify({ notifications });
      attached.set(server.name, server);
      parts.links
        .modern(session, server, {
          ...describedCall(message, 'subscriptions/listen', params, through(server.name, listening)),
          acting: { session, correlationId: exchange.correlationId },
        })
        .catch(() => {})
        .finally(() => {
          if (attached.get(server.name) === server) attached.delete(server.name);
          listening();
        });
    });
  const used = exchange.available.filter(
    (server) => byServer.has(server.name) || parts.links.of(session.id, server.name).length > 0,
  );
  const names = new Set(exchange.available.map((server) => server.name));
  const stop = parts.catalog.onChange(({ server: name, byOurselves, concerns }) => {
    const { server } = parts.resolution.find(session, name);
    if (server !== undefined && !concerns(parts.resolution.listOwner(session, server), placeOf(session))) return;
    const gone = server === undefined && names.delete(name);
    if (server !== undefined) names.add(name);
    else if (!gone) return;
    if (attached.has(name) && !byOurselves) return;
    for (const [, method] of wanted) tell(method, {});
    // The stream of a server that is another now ends; the new one is listened to in its place.
    const replaced = attached.has(name) && attached.get(name) !== server;
    if (replaced) attached.delete(name);
    if (replaced && server !== undefined) void attach(server);
  });
  parts.onBoundsChange(() => {
    for (const name of names) if (parts.resolution.find(session, name).server === undefined) names.delete(name);
    for (const [, method] of wanted) tell(method, {});
  });
  whenOver(stop);
  await Promise.race([Promise.all(used.map(attach)), ended, pause(deadlineMs, undefined, { ref: false })]);
  if (over) return ended;
  say('notifications/subscriptions/acknowledged', { notifications: honoured });
  for (const each of early) each();
  early = undefined;
  return ended;
}
