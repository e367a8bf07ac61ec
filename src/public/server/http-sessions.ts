import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import { sessionGoneError } from '../../sessions/session.ts';
import { createUserDraft, mayUseSession, sessionNotUsableError } from '../../sessions/user-sessions.ts';
import { chooseForCredential, limitOf } from '../../sessions/workspace-choice.ts';
import type { HandlerRequest } from '../sdk/wrap-handlers.ts';
import type { ClientSelection, Connection } from './connections.ts';
import { isGatewaySession } from './gateway-sessions.ts';
import type { CredentialSource, HttpCaller } from './identify-caller.ts';
import type { ResolvedSession, SessionLayer } from './resolved-session.ts';

/**
 * Finds the session of a call over HTTP without Ambit. The credential says who calls. In the handshake era the transport
 * session is the session. Otherwise it is the session of that user which the request names or hints at, else the default
 * one of the credential.
 */
export async function httpSessions(
  layer: SessionLayer,
  request: HandlerRequest,
  selection: ClientSelection,
  connection: Connection | undefined,
): Promise<ResolvedSession> {
  const caller = await layer.identifyCaller({ extra: request.extra, headers: request.call.headers });
  if ('sessionToken' in caller) {
    const session = await layer.sessions.verifyToken(caller.sessionToken);
    const { id: sessionId, userId, workspaceId } = session;
    const workspaces = workspaceId === undefined ? null : [workspaceId];
    const principal = { kind: 'session', sessionId, userId } as const;
    const { credential } = caller;
    return { session, principal, credential, workspaces, isCounted: true, isRenewable: false };
  }
  const { principal, credential } = caller;
  const transportId = request.extra['sessionId'];
  const workspaceId = await chooseWorkspace(layer, caller, selection);
  const known = {
    principal,
    credential,
    workspaces: limitOf(principal),
    ...(caller.workspaceId === undefined ? { selectable: limitOf(principal) } : {}),
    isCounted: true,
  };
  if (typeof transportId === 'string') {
    const session = await findTransportSession(layer, { principal, transportId, workspaceId, connection });
    return { ...known, session, isRenewable: false, endsWithConnection: true };
  }
  const { userSessions } = layer;
  // Several people may call anonymously, so they share nothing.
  if (principal.kind === 'anonymous') {
    const { session } = await layer.sessions.create({
      userId: principal.userId,
      trustLevel: 'sandboxed',
      // It ends with the call, or soon if that fails.
      ttlSeconds: Math.min(anonymousTtlSeconds, layer.settings.bounds.ttlSeconds),
    });
    return { ...known, session, isRenewable: false, endsWithCall: true };
  }
  if (selection.sessionId !== undefined) {
    const session = await userSessions.chosenBy(principal, selection.sessionId);
    if (isGatewaySession(session)) throw sessionNotUsableError();
    return { ...known, session, isRenewable: false };
  }
  const session =
    selection.hint === undefined
      ? await userSessions.defaultFor(principal, workspaceId)
      : await userSessions.hintedFor(principal, selection.hint, workspaceId);
  return { ...known, session, isRenewable: true };
}

/** Finds the session that a modern call over HTTP with this credential would use. It opens none. */
export async function findHttpSession(
  layer: SessionLayer,
  source: CredentialSource,
  selection: ClientSelection,
): Promise<Pick<ResolvedSession, 'session' | 'principal' | 'credential'> | undefined> {
  const caller = await layer.identifyCaller(source);
  const { credential } = caller;
  if ('sessionToken' in caller) {
    const session = await layer.sessions.verifyToken(caller.sessionToken);
    return { session, principal: { kind: 'session', sessionId: session.id, userId: session.userId }, credential };
  }
  const { principal } = caller;
  if (principal.kind !== 'user') return undefined;
  const { sessionId: id, hint } = selection;
  const chosen = { ...(id === undefined ? {} : { id }), ...(hint === undefined ? {} : { hint }) };
  const workspaceId = await chooseWorkspace(layer, caller, selection);
  const session = await layer.userSessions.findChosen(principal, chosen, workspaceId);
  return session && { session, principal, credential };
}

/** Chooses the workspace in which a session of this caller is opened. */
async function chooseWorkspace(
  layer: SessionLayer,
  { principal, workspaceId }: Exclude<HttpCaller, { sessionToken: string }>,
  { announced }: ClientSelection,
): Promise<string | undefined> {
  if (principal.kind !== 'user' || workspaceId !== undefined) return workspaceId;
  const { userId, ceiling } = principal;
  if (ceiling.workspaces === null) return undefined;
  const { agentId, trustLevel, scopes } = ceiling;
  const names = await layer.findWorkspaces({ userId, agentId, trustLevel, permissions: scopes ?? [] });
  return chooseForCredential(ceiling, announced, names);
}

const anonymousTtlSeconds = 60;

/** The id of the session of a transport session. */
export function toTransportSessionId(transportId: string): string {
  return createHash('sha256').update(`transport ${transportId}`).digest('hex').slice(0, 32);
}

interface TransportCaller {
  readonly principal: Exclude<Principal, { kind: 'session' | 'local' }>;
  readonly transportId: string;
  readonly workspaceId: string | undefined;
  readonly connection: Connection | undefined;
}

/** A transport session belongs to the user of the handshake, with the bounds of the credential of the first call. */
async function findTransportSession(
  layer: SessionLayer,
  { principal, transportId, workspaceId, connection }: TransportCaller,
): Promise<Session> {
  const { sessions, store, openIn } = layer;
  const id = toTransportSessionId(transportId);
  const { userId } = principal;
  const draft = principal.kind === 'user' ? createUserDraft(principal, workspaceId) : { userId };
  const trustLevel = principal.kind === 'user' ? principal.ceiling.trustLevel : 'sandboxed';
  for (;;) {
    const session = sessions.get(id) ?? (await sessions.load(id));
    if (session !== undefined) {
      // A session that the caller may not use is answered like one that never existed.
      if (!mayUseSession(session, principal)) throw createTransportError();
      return session;
    }
    const remains = await store.remains(id);
    if (remains !== undefined) {
      throw remains.record.userId === userId ? sessionGoneError(remains.reason) : createTransportError();
    }
    await assertOpener(principal, connection);
    try {
      return (await openIn({ ...draft, trustLevel, id })).session;
    } catch (error) {
      if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
    }
  }
}

/** Refuses a caller that uses the transport session of another user before that user has. */
async function assertOpener({ userId }: Principal, connection: Connection | undefined): Promise<void> {
  const opener = await connection?.opener;
  if (opener !== undefined && opener !== userId) throw createTransportError();
}

function createTransportError(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', { hint: 'Connect again to start a new session.' });
}
