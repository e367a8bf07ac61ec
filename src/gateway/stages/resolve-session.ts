import type { Principal } from '../../identity/principal.ts';
import { goneBecause } from '../../sessions/gone-because.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Callers } from '../../upstreams/caller.ts';
import { ProtocolFault } from '../../wire/protocol-fault.ts';
import { type Stage, widen } from '../chain.ts';
import type { Approach, Identified, InSession } from '../exchange.ts';

export interface ResolveOptions {
  readonly sessions: Sessions;
  readonly callers: Callers;
  /** Opens a session for someone who is not bound to one. */
  openFor(principal: Principal): Promise<Session>;
  /** The one session of a user who names none, opened when there is none yet. */
  defaultFor(principal: Principal): Promise<Session>;
}

/** Third on the inward corridor: from a principal to the one session this exchange belongs to. */
export function resolveSession<E extends Approach, Out>(
  options: ResolveOptions,
  // Those who do not go on to `admit` ask the store here.
  strictly = false,
): Stage<Identified<E>, InSession<E>, Out> {
  const { sessions, callers } = options;

  async function ofUser(exchange: Identified<E>): Promise<Session> {
    const { principal, transportId } = exchange;
    if (transportId !== undefined && exchange.era === 'handshake') {
      const caller = callers.get(transportId);
      const session = caller === undefined ? undefined : await sessions.load(caller.sessionId);
      // Somebody else's transport session does not exist for this caller.
      if (session === undefined || session.userId !== principal.userId) throw unknownTransport();
      return session;
    }
    return exchange.era === 'handshake' ? options.openFor(principal) : options.defaultFor(principal);
  }

  /** What is held here is answered at once: that is the path of almost every call. */
  function sessionFor(exchange: Identified<E>): Session | Promise<Session> {
    const { principal, credential } = exchange;
    const id =
      principal.kind === 'session'
        ? principal.sessionId
        : credential.kind === 'pipe'
          ? credential.sessionId
          : undefined;
    if (id === undefined) return ofUser(exchange);
    return (strictly ? undefined : sessions.get(id)) ?? loaded(id);
  }

  async function loaded(id: string): Promise<Session> {
    const session = await sessions.load(id);
    if (session === undefined) throw goneBecause(await sessions.whyGone(id));
    return session;
  }

  return function resolveSession(exchange, next) {
    const found = sessionFor(exchange);
    return found instanceof Promise ? found.then(onward) : onward(found);

    function onward(session: Session): Promise<Out> {
      exchange.entry.sessionId = session.id;
      return next(widen(exchange, { session }));
    }
  };
}

export function unknownTransport(): ProtocolFault {
  return new ProtocolFault(-32001, 404, 'Session not found: initialize again');
}
