import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { chosenSession } from '../../protocol/chosen-session.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolFault } from '../../protocol/protocol-fault.ts';
import { goneBecause, type Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Approach, Arrived, Identified } from '../exchange.ts';
import { isTheirs, type SessionsOfUsers } from '../sessions/sessions-of-users.ts';
import type { BeforeStage } from '../stage.ts';

export interface ResolveOptions extends SessionsOfUsers {
  readonly sessions: Sessions;
  readonly callers: Callers;
  /** The workspace that a session is opened in for this caller, if that is not left open. */
  workspaceMeant(principal: Principal, message: Message): string | undefined;
  /** The session of this user that has a transport session which is not known here. */
  whose(userId: string, transportId: string): Promise<string | undefined>;
}

/**
 * Finds the one session that the request of a principal belongs to. With `strictly`, the store is always asked: that is
 * for requests that do not pass `admit`.
 */
export function resolveSession(
  options: ResolveOptions,
  strictly = false,
): BeforeStage<Identified, { readonly session: Session }> {
  const { sessions, callers } = options;

  /** One that is not this caller's does not exist for this caller. */
  async function ofTransport(principal: Principal, transportId: string): Promise<Session> {
    const id = callers.get(transportId)?.sessionId ?? (await options.whose(principal.userId, transportId));
    const held = id === undefined || strictly ? undefined : sessions.get(id);
    const session = id === undefined ? undefined : (held ?? (await sessions.load(id)));
    if (session === undefined || !isTheirs(session, principal)) throw unknownTransport();
    return session;
  }

  async function ofUser(exchange: Identified): Promise<Session> {
    const { principal, transportId } = exchange;
    const { message, looksAs } = exchange as Approach & Partial<Arrived>;
    if (looksAs !== undefined) return looksAs;
    if (exchange.era === 'handshake') {
      if (transportId !== undefined) return ofTransport(principal, transportId);
      if (message?.method !== 'initialize') throw missingTransport();
      return options.openFor(principal, options.workspaceMeant(principal, message));
    }
    if (principal.kind !== 'user' || message === undefined) return options.defaultFor(principal);
    const workspaceId = options.workspaceMeant(principal, message);
    const chosen = chosenSession(message);
    if (chosen === undefined) {
      throw new AmbitError('REQUEST_INVALID', { what: '_meta["ambit/use-session"] is not one id of a session.' });
    }
    if (chosen.id !== undefined) return options.chosenBy(principal, chosen.id);
    if (chosen.hint !== undefined) return options.hintedFor(principal, chosen.hint, workspaceId);
    return options.defaultFor(principal, workspaceId);
  }

  /** What is held here is answered at once: that is the path of almost every call. */
  function sessionFor(exchange: Identified): Session | Promise<Session> {
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

  return {
    name: 'resolveSession',
    refuses: [
      'SESSION_EXPIRED',
      'SESSION_ENDED',
      'SESSION_NOT_FOUND',
      'SESSION_LIMIT',
      'REQUEST_INVALID',
      'STORE_UNAVAILABLE',
      -32000,
      -32001,
    ],
    finds: 'session',
    before(exchange) {
      const found = sessionFor(exchange);
      return found instanceof Promise ? found.then(noted) : noted(found);

      function noted(session: Session) {
        exchange.entry.sessionId = session.id;
        return { session };
      }
    },
  };
}

export function missingTransport(): ProtocolFault {
  return new ProtocolFault(-32000, 400, 'Bad Request: the Mcp-Session-Id header is missing; initialize first');
}

export function unknownTransport(): ProtocolFault {
  return new ProtocolFault(-32001, 404, 'Session not found: initialize again');
}
