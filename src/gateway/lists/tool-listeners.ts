import type { Channel, Reply } from '../../protocol/channel.ts';
import { notificationMessage } from '../../protocol/compose-message.ts';
import { memberOf, rawAt, shapeAt } from '../../protocol/json/scan.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { Next } from '../stage.ts';

/** Modern listen streams of single servers: the server says what changes there, we say what changes by our bounds. */
export interface ToolListeners {
  follow<E extends InSession<Arrived>>(exchange: E, server: string, next: Next<E, Reply>): Promise<Reply>;
  /** The session is shown other tools of these servers than before. */
  tell(sessionId: string, servers: readonly string[]): void;
}

export const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';

export function createToolListeners(): ToolListeners {
  const listening = new Set<{ readonly sessionId: string; readonly server: string; tell(): void }>();
  return {
    follow(exchange, server, next) {
      if (!asksForTools(exchange)) return next(exchange);
      const { channel, message, session } = exchange;
      const _meta = { [subscriptionKey]: JSON.parse(message.id as string) as unknown };
      const changed = notificationMessage('notifications/tools/list_changed', { _meta });
      // Nothing may come before the acknowledgement, which is the first that the server says.
      let acknowledged = false;
      const heard: Channel = {
        owner: channel.owner,
        isGone: () => channel.isGone(),
        onGone: (listener) => channel.onGone(listener),
        onDrain: (listener) => channel.onDrain(listener),
        close: () => channel.close(),
        emit(bytes) {
          acknowledged = true;
          return channel.emit(bytes);
        },
      };
      const stream = {
        sessionId: session.id,
        server,
        tell: () => void (acknowledged && !channel.isGone() && channel.emit(changed)),
      };
      listening.add(stream);
      return next(Object.assign(exchange, { channel: heard })).finally(() => listening.delete(stream));
    },
    tell(sessionId, servers) {
      for (const stream of listening) {
        if (stream.sessionId === sessionId && servers.includes(stream.server)) stream.tell();
      }
    },
  };
}

export function asksForTools({ era, message }: Pick<Arrived, 'era' | 'message'>): boolean {
  const filter = memberOf(message.params?.shape, 'notifications');
  if (era !== 'modern' || message.kind !== 'request' || filter === undefined) return false;
  const tools = memberOf(shapeAt(message.bytes, filter), 'toolsListChanged');
  return tools !== undefined && rawAt(message.bytes, tools) === 'true';
}
