import type { Grant } from '../../sessions/grants.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Reply } from '../../wire/channel.ts';
import { within as waitFor } from '../../within.ts';
import type { Stage } from '../chain.ts';
import type { Arrived, InSession } from '../exchange.ts';

const longestWaitMs = 250;

/**
 * Sixth on the inward corridor: the session's life and its quotas. Every message counts as use of the session; calls of
 * tools are counted, whether a rule refuses them further on or not, so that a flood of refused calls is bounded too.
 */
export function admit<E extends InSession<Arrived>>(sessions: Sessions): Stage<E, E, Reply> {
  return function admit(exchange, next) {
    // Whoever only looks through a session does not use it.
    if (exchange.looksAs !== undefined) {
      exchange.entry.admitted = true;
      return next(exchange);
    }
    const counted = exchange.message.method === 'tools/call' && exchange.message.kind === 'request';
    const grant = sessions.enter(exchange.session, counted);
    return 'then' in grant ? grant.then((given) => within(given, counted)) : within(grant, counted);

    async function within(given: Grant, isCounted: boolean): Promise<Reply> {
      exchange.entry.admitted = true;
      let bytes = isCounted ? exchange.message.bytes.length : 0;
      // A stream that only listens is no activity: it must not keep a session alive.
      const listens = exchange.message.method === 'subscriptions/listen';
      if (listens) void given.of.leave(given, isCounted, 0);
      try {
        const reply = await next(exchange);
        if (isCounted && reply.kind === 'message') bytes += reply.bytes.length;
        return reply;
      } finally {
        const left = listens ? undefined : given.of.leave(given, isCounted, bytes);
        // Not for long: an answer that is there does not wait for a store that is away.
        if (left !== undefined) await waitFor(left, longestWaitMs).catch(() => {});
      }
    }
  };
}
