import { isAmbitError } from '../../errors.ts';
import { withTimeout as waitFor } from '../../lib/async/timeout.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { AcquiredGrant } from '../../sessions/grants.ts';
import type { RequestRateLimit } from '../../sessions/request-rate.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import { allServers, type Exchange, isToolCall, type SessionExchange } from '../exchange.ts';
import { ownServer } from '../routing/own-server.ts';
import { type AroundStage, addToExchange } from '../stage.ts';

const maxWaitMs = 250;

/**
 * Checks the session's life and its quotas. Every message counts as use of the session. Calls of tools are counted, even
 * when a later stage refuses them, so that a flood of refused calls is bounded too.
 */
export function admit(
  sessions: Sessions,
  pace: RequestRateLimit,
): AroundStage<SessionExchange<Exchange>, unknown, FinalReply> {
  /** Acquires a call. Whoever has used up its concurrent calls can still end the sessions that hold them. */
  async function acquireCall(exchange: SessionExchange<Exchange>, asked: Promise<AcquiredGrant>) {
    try {
      return await asked;
    } catch (error) {
      const isFull = isAmbitError(error) && error.rule?.endsWith('.concurrentCalls') === true;
      if (!isFull || readOwnTool(exchange) !== 'session_end') throw error;
      pace.take(exchange.session.id);
      return sessions.acquire(exchange.session, false);
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
      if (!(grant instanceof Promise)) return runAdmitted(grant);
      return isCounted ? acquireCall(exchange, grant).then(runAdmitted) : grant.then(runAdmitted);

      async function runAdmitted(acquired: AcquiredGrant): Promise<FinalReply> {
        let given = acquired;
        let counts = isCounted;
        let isOver = false;
        if (isCounted) entry.admitted = true;
        let bytes = isCounted ? message.bytes.length : 0;
        // A listen stream is no activity and must not keep a session alive.
        const listens = message.method === 'subscriptions/listen';
        if (listens) void given.owner.release(given, isCounted, 0);
        if (isCounted && waitingTools.has(readOwnTool(exchange) ?? '')) addToExchange(exchange, { onWait: freePlace });
        try {
          const reply = await next(exchange);
          if (carriesResult(message) && reply.kind === 'message') bytes += reply.bytes.length;
          return reply;
        } finally {
          isOver = true;
          const left = listens ? undefined : given.owner.release(given, counts, bytes);
          // A finished answer does not wait long for an unavailable store.
          if (left !== undefined) await waitFor(left, maxWaitMs).catch(() => {});
        }

        /** Exchanges the call for one that only keeps the session alive: whoever waits holds up nobody. */
        function freePlace(): void {
          if (!counts) return;
          counts = false;
          void given.owner.release(given, true, 0);
          given = noGrant;
          Promise.resolve(sessions.acquire(session, false)).then(
            (grant) => {
              if (isOver) void grant.owner.release(grant, false, 0);
              else given = grant;
            },
            // Whatever has become of the session, the tool finds out.
            () => {},
          );
        }
      }
    },
  };
}

const waitingTools: ReadonlySet<string> = new Set(['session_inbox', 'session_result']);

const noGrant: AcquiredGrant = { owner: { release: () => undefined } };

/** Reads the name of the tool that is called, if it may be one of Ambit's own. */
function readOwnTool({ server, message }: Exchange): string | undefined {
  return server === ownServer || server === allServers ? readToolName(message) : undefined;
}

/** Tells whether the reply can be the result of a tool. The result of a task comes with a request of its own. */
function carriesResult(message: Message): boolean {
  return isToolCall(message) || message.method === 'tasks/result' || message.method === 'tasks/get';
}
