import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Channel, Reply } from '../../wire/channel.ts';
import { notificationMessage } from '../../wire/compose.ts';
import { readMessage } from '../../wire/message.ts';
import { memberOf, rawAt, stringAt } from '../../wire/scan.ts';
import { describedCall } from './ask-as.ts';
import type { Found } from './find-server.ts';
import type { ForAll } from './for-all.ts';

const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';
const lists = {
  toolsListChanged: 'notifications/tools/list_changed',
  promptsListChanged: 'notifications/prompts/list_changed',
  resourcesListChanged: 'notifications/resources/list_changed',
} as const;

/** A modern client's listen stream over all servers. Servers that have not been used are not started for it. */
export async function listenToAll(
  exchange: ForAll,
  parts: {
    readonly links: Links;
    readonly catalog: Catalog;
    readonly servers: () => ReadonlyMap<string, ServerDefinition>;
    route(uri: string): Promise<Found | undefined>;
  },
): Promise<Reply> {
  const { message, channel, session } = exchange;
  const asked = memberOf(message.params?.shape, 'notifications');
  const filter = (asked === undefined ? {} : JSON.parse(rawAt(message.bytes, asked))) as Record<string, unknown>;
  const wanted = Object.entries(lists).filter(([name]) => filter[name] === true);
  const uris = Array.isArray(filter.resourceSubscriptions) ? (filter.resourceSubscriptions as string[]) : [];
  const clientId = JSON.parse(message.id as string) as unknown;
  const say = (method: string, params: Record<string, unknown>) =>
    channel.emit(notificationMessage(method, { ...params, _meta: { [subscriptionKey]: clientId } }));

  const honoured: Record<string, unknown> = Object.fromEntries(wanted.map(([name]) => [name, true]));
  const byServer = new Map<string, string[]>();
  for (const uri of uris) {
    const found = await parts.route(uri);
    if (found === undefined) continue;
    byServer.set(found.server.name, [...(byServer.get(found.server.name) ?? []), found.name]);
  }
  if (byServer.size > 0) honoured.resourceSubscriptions = [...byServer.values()].flat();
  say('notifications/subscriptions/acknowledged', { notifications: honoured });

  const gone: (() => void)[] = [];
  const through: Channel = {
    owner: {},
    get gone() {
      return channel.gone;
    },
    emit(bytes) {
      const said = readMessage(bytes);
      if (said.method === 'notifications/resources/updated') {
        return say(said.method, { uri: stringAt(said.bytes, memberOf(said.params?.shape, 'uri')) });
      }
      const change = Object.values(lists).find((method) => method === said.method);
      return change !== undefined && wanted.some(([, method]) => method === change) ? say(change, {}) : true;
    },
    onDrain: (listener) => channel.onDrain(listener),
    onGone: (listener) => void gone.push(listener),
    close() {},
  };
  /** The servers that tell of their changes themselves, each with the stream they do it on. */
  const attached = new Map<string, ServerDefinition>();
  function attach(server: ServerDefinition): void {
    const resourceSubscriptions = byServer.get(server.name);
    const notifications = {
      ...Object.fromEntries(wanted.map(([name]) => [name, true])),
      ...(resourceSubscriptions === undefined ? {} : { resourceSubscriptions }),
    };
    const call = describedCall(message, 'subscriptions/listen', JSON.stringify({ notifications }), through);
    attached.set(server.name, server);
    const ended = () => void (attached.get(server.name) === server && attached.delete(server.name));
    parts.links.modern(session, server, call).then(ended, ended);
  }
  for (const server of exchange.available) {
    if (byServer.has(server.name) || parts.links.of(session.id, server.name).length > 0) attach(server);
  }
  const names = new Set(exchange.available.map((server) => server.name));
  const stop = parts.catalog.onChange((name, byOurselves) => {
    const server = parts.servers().get(name);
    const available = server?.trust.includes(session.trustLevel) === true;
    if (available) names.add(name);
    if (!names.has(name) || (attached.has(name) && !byOurselves)) return;
    for (const [, method] of wanted) say(method, {});
    // The stream of a server that is another now ends; the new one is listened to in its place.
    const replaced = attached.has(name) && attached.get(name) !== server;
    if (replaced) attached.delete(name);
    if (replaced && available && server !== undefined) attach(server);
  });
  return new Promise<Reply>((settle) => {
    channel.onGone(() => {
      stop();
      for (const listener of gone) listener();
      settle({ kind: 'accepted' });
    });
  });
}
