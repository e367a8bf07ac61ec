import { composeNotification } from '../../protocol/compose-message.ts';
import type { Message } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import type { Messages } from '../../sessions/teams/messages.ts';
import { composeInboxText } from '../../sessions/tools/message-tools.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { ToolAccess } from '../../upstreams/access/tool-access.ts';
import type { Callers } from '../../upstreams/links/caller.ts';

/** The address of the resource that holds the messages of the session of the request. */
export const inboxUri = 'ambit://inbox';

export const inboxEntry = JSON.stringify({
  uri: inboxUri,
  name: 'inbox',
  title: 'Messages of other sessions',
  description: 'The messages in the inbox of this session. Acknowledge them with session_inbox.',
  mimeType: 'application/json',
});

const inboxTool = 'session_inbox';

/** The inbox of a session as a resource. Whoever may not call the tool may not read the resource either. */
export interface OwnInbox {
  isVisible(session: Session): boolean;
  /** Throws PERMISSION_DENIED for a session that may not use the inbox. */
  assertAllowed(session: Session, message: Message): void;
  /** Reads the inbox, as the result of `resources/read`. */
  read(session: Session, message: Message): Promise<object>;
  /** Calls the listener for each message to the session. Returns the function that stops it. */
  watch(sessionId: string, listener: () => void): () => void;
}

interface OwnInboxParts {
  readonly messages: Pick<Messages, 'read'>;
  readonly tools: ToolAccess;
  readonly server: string;
  readonly watchStore: SessionStore['watch'];
}

export function createOwnInbox({ messages, tools, server, watchStore }: OwnInboxParts): OwnInbox & { close(): void } {
  const listeners = new Map<string, Set<() => void>>();
  const notify = (all: Iterable<() => void>) => {
    for (const listener of [...all]) listener();
  };
  const stop = watchStore((change) => {
    if (change.kind === 'message') notify(listeners.get(change.id) ?? []);
    else if (change.kind === 'lost') for (const all of [...listeners.values()]) notify(all);
  });
  return {
    isVisible(session) {
      try {
        return tools.visibleToolFilter(session, server)?.(inboxTool) ?? true;
      } catch {
        // The session has ended meanwhile.
        return false;
      }
    },
    assertAllowed: (session, message) => void tools.assertAllowed(session, server, inboxTool, message),
    async read(session, message) {
      tools.assertAllowed(session, server, inboxTool, message);
      const text = composeInboxText(await messages.read(session));
      return { contents: [{ uri: inboxUri, mimeType: 'application/json', text }] };
    },
    watch(sessionId, listener) {
      const all = listeners.get(sessionId) ?? new Set();
      listeners.set(sessionId, all.add(listener));
      return () => {
        all.delete(listener);
        if (all.size === 0 && listeners.get(sessionId) === all) listeners.delete(sessionId);
      };
    },
    close: stop,
  };
}

/** Tells handshake-era clients that have subscribed to the inbox of a session. Modern clients hear it on their stream. */
export function announceInbox(callers: Callers, servers: readonly string[], sessionId: string): void {
  const updated = composeNotification('notifications/resources/updated', { uri: inboxUri });
  for (const { sessionId: id, subscriptions, stream } of servers.flatMap(callers.byServer)) {
    if (id === sessionId && subscriptions.has(inboxUri) && stream?.isGone() === false) stream.emit(updated);
  }
}
