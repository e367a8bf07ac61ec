import { AmbitError } from '../../errors.ts';
import type { Principal, UserPrincipal } from '../../identity/principal.ts';
import { readChosenSession } from '../../protocol/client-selection.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { type Session, sessionGoneError } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { mayUseSession, type UserSessions } from '../../sessions/user-sessions.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Exchange, IdentifiedExchange, RequestBase } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

export interface ResolveSessionOptions extends UserSessions {
  readonly sessions: Sessions;
  readonly callers: Callers;
  /** Chooses the workspace of a new session for this caller; undefined if it stays open. */
  chooseWorkspace(principal: Principal, message: Message): string | undefined;
  /** Finds the user's session of a transport session that is unknown here. */
  findTransportSession(userId: string, transportId: string): Promise<string | undefined>;
}

/** Finds the session of a request. With `strictly` the store is always asked, for requests that do not pass `admit`. */
export function resolveSession(
  options: ResolveSessionOptions,
  strictly = false,
): BeforeStage<IdentifiedExchange, { readonly session: Session }> {
  const { sessions, callers } = options;

  /** Finds the session of a transport session. One of another caller is treated as unknown. */
  async function findByTransport(principal: Principal, transportId: string): Promise<Session> {
    const id =
      callers.get(transportId)?.sessionId ?? (await options.findTransportSession(principal.userId, transportId));
    const loaded = id === undefined || strictly ? undefined : sessions.get(id);
    const session = id === undefined ? undefined : (loaded ?? (await sessions.load(id)));
    if (session === undefined || !mayUseSession(session, principal)) throw unknownTransportError();
    return session;
  }

  async function findForUser(exchange: IdentifiedExchange): Promise<Session> {
    const { principal, transportId } = exchange;
    const { message, listAsSession } = exchange as RequestBase & Partial<Exchange>;
    if (listAsSession !== undefined) return listAsSession;
    if (exchange.era === 'handshake') {
      if (transportId !== undefined) return findByTransport(principal, transportId);
      if (message?.method !== 'initialize') throw missingTransportError();
      return options.openFor(principal, options.chooseWorkspace(principal, message));
    }
    if (principal.kind !== 'user' || message === undefined) return options.defaultFor(principal);
    const workspaceId = options.chooseWorkspace(principal, message);
    const chosen = readChosenSession(message);
    if (chosen === undefined) {
      throw new AmbitError('REQUEST_INVALID', { what: '_meta["ambit/use-session"] must be the id of one session.' });
    }
    if (chosen.id !== undefined) return options.chosenBy(principal, chosen.id);
    if (chosen.hint !== undefined) return options.hintedFor(principal, chosen.hint, workspaceId);
    return options.defaultFor(principal, workspaceId);
  }

  /** Returns a loaded session synchronously, which is the case for almost every call. */
  function findSession(exchange: IdentifiedExchange): Session | Promise<Session> {
    const { principal, credential } = exchange;
    const id =
      principal.kind === 'session'
        ? principal.sessionId
        : credential.kind === 'pipe'
          ? credential.sessionId
          : undefined;
    if (id === undefined) return findForUser(exchange);
    return (strictly ? undefined : sessions.get(id)) ?? loadSession(id);
  }

  async function loadSession(id: string): Promise<Session> {
    const session = await sessions.load(id);
    if (session === undefined) throw sessionGoneError(await sessions.whyGone(id));
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
      const found = findSession(exchange);
      return found instanceof Promise ? found.then(recordSession) : recordSession(found);

      function recordSession(session: Session) {
        exchange.entry.sessionId = session.id;
        return { session };
      }
    },
  };
}

/** Finds the session that a modern call of this user with the same `_meta` would use. It opens none. */
export async function findChosenSession(
  options: ResolveSessionOptions,
  principal: UserPrincipal,
  message: Message,
): Promise<Session | undefined> {
  const chosen = readChosenSession(message);
  return chosen && options.findChosen(principal, chosen, options.chooseWorkspace(principal, message));
}

export function missingTransportError(): ProtocolError {
  return new ProtocolError(-32000, 400, 'Bad Request: the Mcp-Session-Id header is missing; initialize first');
}

export function unknownTransportError(): ProtocolError {
  return new ProtocolError(-32001, 404, 'Session not found: initialize again');
}
