import type { Gateway } from '../gateway/gateway.ts';
import type { SessionView } from '../sessions/session.ts';
import type { Invocation } from './command.ts';
import { askGateway } from './control-client.ts';

const lookEveryMs = 1000;

/** A session that the running gateway keeps, by id, name or prefix. */
export function keptSession(invocation: Invocation, reference: string): Promise<SessionView> {
  return askGateway<SessionView>(invocation, 'GET', `/api/v1/sessions/${encodeURIComponent(reference)}`);
}

/**
 * Takes part in a session that another gateway keeps, for as long as it does: what is restricted there is restricted
 * here, and when it is gone there, or nobody can say, `ended` resolves.
 */
export function followSession(
  invocation: Invocation,
  gateway: Gateway,
  kept: SessionView,
): { readonly ended: Promise<void>; close(): void } {
  const { id } = gateway.adoptSession(kept);
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  const ended = new Promise<void>((resolve) => {
    async function look(): Promise<void> {
      try {
        const { trustLevel, ttlSeconds, servers, permissions } = await keptSession(invocation, id);
        gateway.sessions.restrict(id, {
          trustLevel,
          ttlSeconds,
          permissions,
          ...(servers === null ? {} : { servers }),
        });
      } catch {
        resolve();
        return;
      }
      if (!closed) timer = setTimeout(look, lookEveryMs).unref();
    }
    timer = setTimeout(look, lookEveryMs).unref();
  });
  return {
    ended,
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
