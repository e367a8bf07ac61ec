import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
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
  openFor(principal: Principal): Session;
}

/** Third on the inward corridor: from a principal to the one session this exchange belongs to. */
export function resolveSession<E extends Approach, Out>(
  options: ResolveOptions,
): Stage<Identified<E>, InSession<E>, Out> {
  const { sessions, callers } = options;
  const defaults = new Map<string, string>();

  function ofUser(exchange: Identified<E>): Session {
    const { principal, transportId } = exchange;
    if (transportId !== undefined && exchange.era === 'handshake') {
      const caller = callers.get(transportId);
      const session = caller === undefined ? undefined : sessions.get(caller.sessionId);
      // Somebody else's transport session does not exist for this caller.
      if (session === undefined || session.userId !== principal.userId) throw unknownTransport();
      return session;
    }
    if (exchange.era === 'handshake') return options.openFor(principal);
    const known = sessions.get(defaults.get(principal.userId) ?? '');
    if (known !== undefined) return known;
    const opened = options.openFor(principal);
    defaults.set(principal.userId, opened.id);
    return opened;
  }

  return function resolveSession(exchange, next) {
    const { principal, credential } = exchange;
    let session: Session | undefined;
    if (principal.kind === 'session') session = sessions.get(principal.sessionId);
    else if (credential.kind === 'pipe') session = sessions.get(credential.sessionId);
    else session = ofUser(exchange);
    if (session === undefined) throw new AmbitError('SESSION_ENDED');
    exchange.entry.sessionId = session.id;
    return next(widen(exchange, { session }));
  };
}

export function unknownTransport(): ProtocolFault {
  return new ProtocolFault(-32001, 404, 'Session not found: initialize again');
}
