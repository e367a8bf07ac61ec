import { capabilitiesKey } from '../../upstreams/handshake.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Reply } from '../../wire/channel.ts';
import { applyEdits } from '../../wire/edit.ts';
import { readMessage } from '../../wire/message.ts';
import type { CachedCalls } from '../cached-calls.ts';
import { type Next, type Stage, widen } from '../chain.ts';
import type { Prepared } from '../exchange.ts';
import { askFor } from './vet-tools.ts';

/** Last before `forward`, so that whatever stands against a call has been asked before a result is given again. */
export function cacheResults(cached: CachedCalls, links: Links): Stage<Prepared, Prepared, Reply> {
  return function cacheResults(exchange, next) {
    const { message, upstream } = exchange;
    const concerned = message.kind === 'request' && message.method === 'tools/call';
    return concerned && cached.concerns(upstream, message) ? answered(exchange, next) : next(exchange);
  };

  function answered(exchange: Prepared, next: Next<Prepared, Reply>): Promise<Reply> {
    const { session, upstream, message, edits, channel, caller, headers, correlationId, entry, era } = exchange;
    return cached.answer(
      {
        session,
        upstream,
        message: edits.length === 0 ? message : readMessage(applyEdits(message.bytes, edits)),
        channel,
        caller,
        headers,
        correlationId,
        entry,
        capabilities: capabilitiesKey(caller?.initialize ?? message),
        manner: `one ${era} ${caller?.version ?? ''}`,
        ask: askFor(exchange, links),
      },
      (listened) => next(widen(exchange, { channel: listened })),
    );
  }
}
