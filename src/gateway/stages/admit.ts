import { isAmbitError } from '../../errors.ts';
import { withTimeout as waitFor } from '../../lib/async/timeout.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { AcquiredGrant } from '../../sessions/grants.ts';
import { type HeldCall, holdCall } from '../../sessions/held-call.ts';
import type { RequestRateLimit } from '../../sessions/request-rate.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import { allServers, type Exchange, isToolCall, type SessionExchange } from '../exchange.ts';
import { ownServer } from '../routing/own-server.ts';
import type { ActivityTracker } from '../session-activity.ts';
import { type AroundStage, addToExchange } from '../stage.ts';

const maxWaitMs = 250;

/**
 * Checks the session's life and its quotas. Every message counts as use of the session. Calls of tools are counted, even
 * when a later stage refuses them, so that a flood of refused calls is bounded too.
 */
export function admit(
  sessions: Sessions,
  pace: RequestRateLimit,
  activity: Pick<ActivityTracker, 'begin' | 'end'>,
): AroundStage<SessionExchange<Exchange>, unknown, FinalReply> {
  /** Acquires a call. Whoever has used up its concurrent calls can still end the sessions that hold them. */
  async function acquireCall(exchange: SessionExchange<Exchange>, asked: Promise<AcquiredGrant>): Promise<HeldCall> {
    const { session } = exchange;
    try {
      return holdCall(sessions, session, await asked, true);
    } catch (error) {
      const isFull = isAmbitError(error) && error.rule?.endsWith('.concurrentCalls') === true;
      if (!isFull || readOwnTool(exchange) !== 'session_end') throw error;
      pace.take(session.id);
      return holdCall(sessions, session, await sessions.acquire(session, false), false);
    }
  }

  return {
    name: 'admit',
    refuses: ['SESSION_EXPIRED', 'SESSION_ENDED', 'QUOTA_EXCEEDED', 'STORE_UNAVAILABLE'],
    around(exchange, next) {
      const { entry, message, session, listAsSession } = exchange;
      // Listing on behalf of a user does not count as use.
      if (listAsSession !== undefined) return next(exchange);
      const isCounted = isToolCall(message);
      const grant = sessions.acquire(session, isCounted);
      if (!(grant instanceof Promise)) return runAdmitted(holdCall(sessions, session, grant, isCounted));
      if (isCounted) return acquireCall(exchange, grant).then(runAdmitted);
      return grant.then((acquired) => runAdmitted(holdCall(sessions, session, acquired, false)));

      async function runAdmitted(held: HeldCall): Promise<FinalReply> {
        if (isCounted) entry.admitted = true;
        const tracked = isCounted ? activity.begin(session.id, exchange) : undefined;
        let bytes = isCounted ? message.bytes.length : 0;
        // A listen stream is no activity and must not keep a session alive.
        const listens = message.method === 'subscriptions/listen';
        if (listens) void held.release(0);
        if (isCounted && waitingTools.has(readOwnTool(exchange) ?? ''))
          addToExchange(exchange, { onWait: held.freePlace });
        try {
          const reply = await next(exchange);
          if (carriesResult(message) && reply.kind === 'message') bytes += reply.bytes.length;
          return reply;
        } finally {
          if (tracked !== undefined) activity.end(tracked);
          const left = listens ? undefined : held.release(bytes);
          // A finished answer does not wait long for an unavailable store.
          if (left !== undefined) await waitFor(left, maxWaitMs).catch(() => {});
        }
      }
    },
  };
}

const waitingTools: ReadonlySet<string> = new Set(['session_inbox', 'session_result']);

/** Reads the name of the tool that is called, if it may be one of Ambit's own. */
function readOwnTool({ server, message }: Exchange): string | undefined {
  return server === ownServer || server === allServers ? readToolName(message) : undefined;
}

/** Tells whether the reply can be the result of a tool. The result of a task comes with a request of its own. */
function carriesResult(message: Message): boolean {
  return isToolCall(message) || message.method === 'tasks/result' || message.method === 'tasks/get';
}
