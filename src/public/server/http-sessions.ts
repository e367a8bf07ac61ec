import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkPermissions } from '../../sessions/check-fields.ts';
import type { CheckedDraft, Session } from '../../sessions/session.ts';
import { isSuppliedId, sessionGoneError } from '../../sessions/session.ts';
import { isObject } from '../sdk/call.ts';
import type { HandlerRequest } from '../sdk/wrap-handlers.ts';
import { isGatewaySession } from './gateway-sessions.ts';
import type { AuthInfo, CallerPrincipal } from './options.ts';
import { createOwnContext, type ResolvedSession, type SessionLayer } from './resolved-session.ts';

const useSessionKey = 'ambit/use-session';

/**
 * Finds the session of a call over HTTP without Ambit. The credential says who calls. In the handshake era the transport
 * session is the session. Otherwise it is the session of that user which the request names, else the user's default one.
 */
export async function httpSessions(layer: SessionLayer, request: HandlerRequest): Promise<ResolvedSession> {
  const caller = await readPrincipal(layer, request.extra);
  if ('sessionToken' in caller) {
    const session = await layer.sessions.verifyToken(String(caller.sessionToken));
    return { session, isCounted: true, isRenewable: false, toolScope: 'session', createContext: createOwnContext };
  }
  const { userId, agentId, workspaceId } = caller;
  const trustLevel: TrustLevel = caller.trustLevel === 'direct' ? 'direct' : 'sandboxed';
  const draft: CheckedDraft = {
    userId,
    trustLevel,
    permissions: checkPermissions(caller.permissions ?? []),
    ...(agentId === undefined ? {} : { agentId }),
    ...(workspaceId === undefined ? {} : { workspaceId }),
  };
  const bounds = { trustLevel, permissions: draft.permissions ?? [] };
  const { meta } = request.call;
  const transportId = request.extra['sessionId'];
  const requestedId = isObject(meta) && Object.hasOwn(meta, useSessionKey) ? meta[useSessionKey] : undefined;
  const session =
    typeof transportId === 'string'
      ? await findTransportSession(layer, draft, transportId)
      : requestedId !== undefined
        ? await findUserSession(layer, userId, requestedId)
        : await layer.namedSessions.findOrCreate({ ...draft, name: 'user:default' });
  return {
    session,
    isCounted: true,
    toolScope: 'session',
    isRenewable: typeof transportId !== 'string' && requestedId === undefined,
    createContext: (current, state) => createOwnContext(current, state, bounds),
  };
}

async function readPrincipal({ principal }: SessionLayer, extra: HandlerRequest['extra']): Promise<CallerPrincipal> {
  if (principal === undefined) {
    throw new AmbitError('UNAUTHENTICATED', {
      what: 'This server cannot identify the caller.',
      hint: 'The author of the server must set the option "principal" of createServerSessions(), or run the server behind Ambit.',
    });
  }
  const http = isObject(extra['http']) ? extra['http'] : extra;
  const hint = 'Send a credential that this server accepts.';
  let caller: CallerPrincipal | undefined;
  try {
    caller = await principal(http['authInfo'] as AuthInfo | undefined);
  } catch (cause) {
    throw new AmbitError('UNAUTHENTICATED', { hint, cause });
  }
  if (isObject(caller) && ('sessionToken' in caller || typeof caller.userId === 'string')) return caller;
  throw new AmbitError('UNAUTHENTICATED', { hint });
}

/** The id of the session is derived from the transport session, which belongs to the user who used it first. */
async function findTransportSession(layer: SessionLayer, draft: CheckedDraft, transportId: string): Promise<Session> {
  const { sessions, store } = layer;
  const id = createHash('sha256').update(`transport ${transportId}`).digest('hex').slice(0, 32);
  for (;;) {
    const session = sessions.get(id) ?? (await sessions.load(id));
    if (session !== undefined) return requireOwner(session, draft.userId);
    const remains = await store.remains(id);
    if (remains !== undefined) {
      throw remains.record.userId === draft.userId ? sessionGoneError(remains.reason) : createUnknownError();
    }
    try {
      return (await sessions.create({ ...draft, id })).session;
    } catch (error) {
      if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
    }
  }
}

async function findUserSession(
  { sessions, store }: SessionLayer,
  userId: string,
  requestedId: unknown,
): Promise<Session> {
  if (typeof requestedId !== 'string' || !isSuppliedId(requestedId)) throw createUnknownError();
  const session = sessions.get(requestedId) ?? (await sessions.load(requestedId));
  if (session !== undefined && !isGatewaySession(session)) return requireOwner(session, userId);
  const remains = await store.remains(requestedId);
  throw remains?.record.userId === userId ? sessionGoneError(remains.reason) : createUnknownError();
}

/** Another user's session is answered like one that never existed. */
function requireOwner(session: Session, userId: string): Session {
  if (session.userId === userId) return session;
  throw createUnknownError();
}

function createUnknownError(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', { hint: 'Use a session that was opened for you, or none.' });
}
