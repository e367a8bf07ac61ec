import type { Caller, Callers } from '../../upstreams/caller.ts';
import { accepted, type Reply } from '../../wire/channel.ts';
import { notificationMessage, resultMessage } from '../../wire/compose.ts';
import type { Edit } from '../../wire/edit.ts';
import { edited } from '../../wire/message.ts';
import { ProtocolFault } from '../../wire/protocol-fault.ts';
import { memberOf, rawAt, stringAt } from '../../wire/scan.ts';
import { listReply } from '../aggregate/lists.ts';
import { discoverOwn, initializeOwn } from '../aggregate/own-results.ts';
import type { Next } from '../chain.ts';
import type { Arrived, InSession } from '../exchange.ts';
import { type OwnTools, ownServer } from '../own-tools.ts';
import { quietLink } from '../quiet-link.ts';
import type { RememberedTransports } from '../remembered-transports.ts';
import { asksForTools, subscriptionKey, type ToolListeners } from '../tool-listeners.ts';

export type OwnExchange = InSession<Arrived> & {
  readonly caller: Caller | undefined;
  readonly edits: readonly Edit[];
};

/** `forward` at the address of Ambit's own tools: there is no server behind it. */
export function answerByItself(
  callers: Callers,
  own: OwnTools,
  listeners: ToolListeners,
  remember: RememberedTransports['remember'],
): Next<OwnExchange, Reply> {
  /** Listen streams, which on stdio end by being cancelled. */
  const listening = new Set<{ readonly owner: object; readonly id: string; end(): void }>();

  async function initialize(exchange: OwnExchange): Promise<Reply> {
    const { message, session } = exchange;
    const requested = stringAt(message.bytes, memberOf(message.params?.shape, 'protocolVersion'));
    const { version, result } = initializeOwn(requested);
    const { id: sessionId, workspaceId } = session;
    const link = quietLink(session, ownServer);
    const clean = edited(message, exchange.edits);
    const caller = callers.open({ sessionId, workspaceId, server: ownServer, version, link, initialize: clean });
    if (exchange.entrance === 'stdio') caller.stream = exchange.channel;
    await remember(caller);
    return { ...answer(exchange, result), transportId: caller.id };
  }

  /** Nothing changes here by itself; what changes is what the session may use. */
  function listen(exchange: OwnExchange): Promise<Reply> {
    return listeners.follow(exchange, ownServer, ({ channel, message }) => {
      const id = message.id as string;
      const notifications = asksForTools(exchange) ? { toolsListChanged: true } : {};
      const _meta = { [subscriptionKey]: JSON.parse(id) as unknown };
      channel.emit(notificationMessage('notifications/subscriptions/acknowledged', { notifications, _meta }));
      return new Promise((resolve) => {
        const stream = {
          owner: channel.owner,
          id,
          end() {
            listening.delete(stream);
            resolve(accepted);
          },
        };
        listening.add(stream);
        channel.onGone(stream.end);
      });
    });
  }

  function cancelled({ message, channel }: OwnExchange): void {
    const requestId = memberOf(message.params?.shape, 'requestId');
    const raw = requestId === undefined ? undefined : rawAt(message.bytes, requestId);
    for (const stream of listening) if (stream.owner === channel.owner && stream.id === raw) stream.end();
  }

  return async function answerByItself(exchange) {
    const { message, session } = exchange;
    const modern = exchange.era === 'modern';
    if (message.kind !== 'request') {
      if (message.method === 'notifications/cancelled') cancelled(exchange);
      return accepted;
    }
    if (message.method === 'tools/list') {
      return listReply(exchange, 'tools', { texts: own.texts(session), unavailable: [] });
    }
    if (message.method === 'tools/call') return own.call(exchange);
    if (modern && message.method === 'server/discover') return answer(exchange, discoverOwn());
    if (modern && message.method === 'subscriptions/listen') return listen(exchange);
    if (!modern && message.method === 'initialize') return initialize(exchange);
    if (!modern && message.method === 'ping') return answer(exchange, '{}');
    throw new ProtocolFault(-32601, modern ? 404 : 200, 'Method not found');
  };
}

function answer({ message }: OwnExchange, result: string): Extract<Reply, { kind: 'message' }> {
  return { kind: 'message', bytes: resultMessage(message.id as string, result), status: 200 };
}
