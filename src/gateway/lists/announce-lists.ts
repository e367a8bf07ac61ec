import type { FinalReply } from '../../protocol/channel.ts';
import { composeNotification } from '../../protocol/compose-message.ts';
import { findMember, readRawValue, readShape } from '../../protocol/json/scan.ts';
import { inWorkspace, sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { ServerMessage } from '../../upstreams/links/link.ts';
import type { Links } from '../../upstreams/links/links.ts';
import { subscriptionKey } from '../../upstreams/links/relay/towards-client.ts';
import { allServers, type Exchange, type SessionExchange, watchEmits } from '../exchange.ts';
import type { Next } from '../stage.ts';

/**
 * The modern listen streams of single servers. The server announces its changes, Ambit those of the session's limits.
 */
export interface ToolListeners {
  listen<E extends SessionExchange<Exchange>>(
    exchange: E,
    server: string,
    next: Next<E, FinalReply>,
  ): Promise<FinalReply>;
  /** Announces that the session sees other tools of these servers. */
  announce(sessionId: string, servers: readonly string[]): void;
}

const listChangedMessages = ['tools', 'prompts', 'resources'].map((what) =>
  Buffer.from(`{"jsonrpc":"2.0","method":"notifications/${what}/list_changed"}`),
);

interface AnnounceParts {
  readonly catalog: Catalog;
  readonly callers: Callers;
  readonly sessions: Pick<Sessions, 'get'>;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  readonly resolution: ServerResolution;
}

/** Tells clients about list changes that Ambit found. Servers announce their own changes. */
export function announceCatalogChanges({ catalog, callers, sessions, servers, resolution }: AnnounceParts): void {
  catalog.onChange(({ server: name, isOwnNotice, concerns }) => {
    if (!isOwnNotice) return;
    announceListChange(callers, [name], (caller) => {
      const session = sessions.get(caller.sessionId);
      const server = servers().get(name);
      if (session === undefined || server === undefined) return server === undefined;
      const view = caller.workspaceId === undefined ? session : inWorkspace(session, caller.workspaceId);
      return concerns(resolution.listOwnerFor(view, server), sessionScopeKey(view));
    });
  });
}

/** Marks the lists of a server as changed when the server says so. */
export function markListsChanged(sent: ServerMessage, links: Links, { catalog, resolution }: AnnounceParts): void {
  if (!/^notifications\/\w+\/list_changed$/.test(sent.message.method)) return;
  const { upstream, link } = sent;
  const ownersOf = () => new Set(links.sessionsOf(link).map((user) => resolution.listOwnerFor(user, upstream).key));
  catalog.markChanged(
    upstream.name,
    link.scopeKey === undefined ? { owners: ownersOf() } : { scopeKey: link.scopeKey },
  );
}

/**
 * Tells handshake-era clients of these servers and of all servers that their lists changed. Modern clients hear it on
 * their stream. Clients that are not concerned hear nothing: they must not learn what other tenants do.
 */
export function announceListChange(
  callers: Callers,
  servers: readonly string[],
  concerns: (caller: Caller) => boolean = () => true,
): void {
  for (const caller of [allServers, ...servers].flatMap(callers.byServer)) {
    if (caller.parent !== undefined || caller.stream === undefined || caller.stream.isGone()) continue;
    if (!concerns(caller)) continue;
    for (const change of listChangedMessages) caller.stream.emit(change);
  }
}

export function createToolListeners(): ToolListeners {
  const listening = new Set<{ readonly sessionId: string; readonly server: string; tell(): void }>();
  return {
    async listen(exchange, server, next) {
      if (!asksForToolChanges(exchange)) return next(exchange);
      const { channel, message, session } = exchange;
      const _meta = { [subscriptionKey]: JSON.parse(message.id as string) as unknown };
      const changed = composeNotification('notifications/tools/list_changed', { _meta });
      // The acknowledgement, the server's first message, must come first.
      let acknowledged = false;
      const watched = watchEmits(channel, () => {
        acknowledged = true;
      });
      const stream = {
        sessionId: session.id,
        server,
        tell: () => void (acknowledged && !channel.isGone() && channel.emit(changed)),
      };
      listening.add(stream);
      try {
        return await next(Object.assign(exchange, { channel: watched }));
      } finally {
        listening.delete(stream);
      }
    },
    announce(sessionId, servers) {
      for (const stream of listening) {
        if (stream.sessionId === sessionId && servers.includes(stream.server)) stream.tell();
      }
    },
  };
}

export function asksForToolChanges({ era, message }: Pick<Exchange, 'era' | 'message'>): boolean {
  const filter = findMember(message.params?.shape, 'notifications');
  if (era !== 'modern' || message.kind !== 'request' || filter === undefined) return false;
  const tools = findMember(readShape(message.bytes, filter), 'toolsListChanged');
  return tools !== undefined && readRawValue(message.bytes, tools) === 'true';
}
