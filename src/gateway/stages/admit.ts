import { withTimeout as waitFor } from '../../lib/async/timeout.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { AcquiredGrant } from '../../sessions/grants.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { type Exchange, isToolCall, type SessionExchange } from '../exchange.ts';
import type { AroundStage } from '../stage.ts';

const maxWaitMs = 250;

/**
 * Checks the session's life and its quotas. Every message counts as use of the session. Calls of tools are counted, even
 * when a later stage refuses them, so that a flood of refused calls is bounded too.
 */
export function admit(sessions: Sessions): AroundStage<SessionExchange<Exchange>, unknown, FinalReply> {
  return {
    name: 'admit',
    refuses: ['SESSION_EXPIRED', 'SESSION_ENDED', 'QUOTA_EXCEEDED', 'STORE_UNAVAILABLE'],
    around(exchange, next) {
      const { entry, message, session, listAsSession } = exchange;
      // Listing on behalf of a user does not count as use.
      if (listAsSession !== undefined) return next(exchange);
      const isCounted = isToolCall(message);
      const grant = sessions.acquire(session, isCounted);
      return grant instanceof Promise ? grant.then(runAdmitted) : runAdmitted(grant);

      async function runAdmitted(given: AcquiredGrant): Promise<FinalReply> {
        if (isCounted) entry.admitted = true;
        let bytes = isCounted ? message.bytes.length : 0;
        // A listen stream is no activity and must not keep a session alive.
        const listens = message.method === 'subscriptions/listen';
        if (listens) void given.owner.release(given, isCounted, 0);
        try {
          const reply = await next(exchange);
          if (carriesResult(message) && reply.kind === 'message') bytes += reply.bytes.length;
          return reply;
        } finally {
          const left = listens ? undefined : given.owner.release(given, isCounted, bytes);
          // A finished answer does not wait long for an unavailable store.
          if (left !== undefined) await waitFor(left, maxWaitMs).catch(() => {});
        }
      }
    },
  };
}

/** Tells whether the reply can be the result of a tool. The result of a task comes with a request of its own. */
function carriesResult(message: Message): boolean {
  return isToolCall(message) || message.method === 'tasks/result' || message.method === 'tasks/get';
}
