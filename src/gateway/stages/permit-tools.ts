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
    if (method === 'tools/list') return listed(exchange, next);
    if (method !== 'tools/call' || tools.of(exchange.upstream.name) === undefined) return next(exchange);
    return permitted(exchange, next);
  };

  function permitted(exchange: Prepared, next: Next<Prepared, Reply>): Promise<Reply> {
    const { session, upstream, message, entry } = exchange;
    entry.rule = tools.admit(session, upstream.name, toolOf(message), message);
    return next(exchange);
  }

  async function listed(exchange: Prepared, next: Next<Prepared, Reply>): Promise<Reply> {
    const reply = await next(exchange);
    const { name } = exchange.upstream;
    const view = { shown: tools.shown(exchange.session, name), replaced: tools.replaced(name) };
    if ((view.shown ?? view.replaced) === undefined || reply.kind !== 'message') return reply;
    return { ...reply, bytes: withToolsShown(reply.bytes, view) };
  }
}
