import type { Reply } from '../../wire/channel.ts';
import type { Next, Stage } from '../chain.ts';
import type { Prepared } from '../exchange.ts';
import { withToolsShown } from '../shown-tools.ts';
import { type ToolBounds, toolOf } from '../tool-bounds.ts';
import type { ToolListeners } from '../tool-listeners.ts';

/**
 * Which of a server's tools this session may call. Inward it decides on the call; on the way back it takes out of the
 * list what no call could be allowed for.
 */
export function permitTools(tools: ToolBounds, listeners: ToolListeners): Stage<Prepared, Prepared, Reply> {
  return function permitTools(exchange, next) {
    const { method } = exchange.message;
    if (method === 'subscriptions/listen') return listeners.follow(exchange, exchange.upstream.name, next);
    const concerned = method === 'tools/call' || method === 'tools/list';
    if (!concerned || tools.of(exchange.upstream.name) === undefined) return next(exchange);
    return method === 'tools/call' ? permitted(exchange, next) : listed(exchange, next);
  };

  function permitted(exchange: Prepared, next: Next<Prepared, Reply>): Promise<Reply> {
    const { session, upstream, message, entry } = exchange;
    entry.rule = tools.admit(session, upstream.name, toolOf(message), message);
    return next(exchange);
  }

  async function listed(exchange: Prepared, next: Next<Prepared, Reply>): Promise<Reply> {
    const reply = await next(exchange);
    const shown = tools.shown(exchange.session, exchange.upstream.name);
    if (shown === undefined || reply.kind !== 'message') return reply;
    return { ...reply, bytes: withToolsShown(reply.bytes, shown) };
  }
}
