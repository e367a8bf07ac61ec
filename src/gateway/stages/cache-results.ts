import type { FinalReply } from '../../protocol/channel.ts';
import { applyMessageEdits } from '../../protocol/message.ts';
import { capabilitiesKey } from '../../upstreams/links/handshake.ts';
import type { CallCache } from '../cache/call-cache.ts';
import { allServers, type PreparedExchange } from '../exchange.ts';
import type { ServerCallers } from '../routing/server-callers.ts';
import { type AroundStage, addToExchange } from '../stage.ts';

/** Answers a call with a cached result, if the operator allows it for the tool. */
export function cacheResults(
  cache: CallCache,
  serverCallers: ServerCallers,
): AroundStage<PreparedExchange, unknown, FinalReply> {
  return {
    name: 'cacheResults',
    refuses: [],
    isNeeded: ({ upstream, isToolCall }) => isToolCall && upstream !== undefined && cache.cachesServer(upstream.name),
    around(exchange, next) {
      const { upstream, message, caller, era, server } = exchange;
      if (upstream === undefined || upstream.kind === 'in-process') return next(exchange);
      const outgoing = applyMessageEdits(exchange.outgoing, exchange.edits);
      if (!cache.cachesTool(upstream, outgoing)) return next(exchange);
      const { session, channel, headers, correlationId, entry } = exchange;
      return cache.answer(
        {
          session,
          upstream,
          message: outgoing,
          channel,
          caller,
          headers,
          correlationId,
          entry,
          era,
          capabilities: capabilitiesKey(caller?.initialize ?? message),
          replyForm: `${server === allServers ? 'all' : 'one'} ${era} ${caller?.version ?? ''}`,
          ask: serverCallers.ask(exchange, upstream),
        },
        (listened) => next(addToExchange(exchange, { channel: listened })),
      );
    },
  };
}
