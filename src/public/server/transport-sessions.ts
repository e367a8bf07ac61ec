import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { type Session, sessionGoneError } from '../../sessions/session.ts';
import { createUserDraft, mayUseSession, sessionNotUsableError } from '../../sessions/user-sessions.ts';
import { chooseForCredential, limitOf } from '../../sessions/workspace-choice.ts';
import type { HandlerRequest } from '../sdk/wrap-handlers.ts';
import type { ClientSelection, Connection } from './connections.ts';
import { isGatewaySession } from './gateway-sessions.ts';
import type { CredentialSource, HttpCaller } from './identify-caller.ts';
import type { ResolvedSession, SessionLayer } from './resolved-session.ts';

export interface StdioSessions {
  resolve(server: object): Promise<ResolvedSession>;
  /** Finds the session that a call would use, if there is one. It opens none. */
  find(server: object): Promise<Session | undefined>;
  /** Ends the session that was opened for this server, whose client has left. */
  disconnect(server: object): Promise<void>;
  /** Ends the sessions that were opened for this process: nobody else has a token of them. */
  close(): Promise<void>;
}

/** There is one credential to a pipe: whoever started this process holds its other end. */
export const localCredential = 'pipe';

type StdioParts = Pick<SessionLayer, 'sessions' | 'settings' | 'findWorkspaces' | 'openIn'>;

interface PipeSessions {
  resolve(): Promise<ResolvedSession>;
  find(): Promise<Session | undefined>;
  /** The sessions that were opened for this pipe and have not ended. */
  readonly opened: Set<string>;
  /** The client has left. A session that is being opened ends at once. */
  isClosed: boolean;
}

/**
 * Sessions over stdio without Ambit: the caller is whoever started this process. The session is the one they named, or
 * one that opens with the first call and lasts as long as the connection. There is normally one server to a pipe. Several
 * servers get a session each, because such a pipe may be a network in disguise.
 */
export function stdioSessions(layer: StdioParts): StdioSessions {
  const { sessions } = layer;
  const pipes = new Map<object, PipeSessions>();
  sessions.onEnded(({ id }, reason) => {
    if (reason === 'unloaded') return;
    for (const { opened } of pipes.values()) opened.delete(id);
  });

  async function endOpened({ opened }: PipeSessions): Promise<void> {
    await Promise.all([...opened].map((id) => sessions.end(id, 'closed').catch(() => false)));
  }

  return {
    resolve(server) {
      const pipe = pipes.get(server) ?? createPipeSessions(layer);
      pipes.set(server, pipe);
      return pipe.resolve();
    },
    find: (server) => (pipes.get(server) ?? createPipeSessions(layer)).find(),
    async disconnect(server) {
      const pipe = pipes.get(server);
      pipes.delete(server);
      if (pipe === undefined) return;
      pipe.isClosed = true;
      await endOpened(pipe);
    },
    async close() {
      await Promise.all([...pipes.values()].map(endOpened));
    },
  };
}

const namedHint = 'Start the server with another session id, or without one.';

/** The error for a session that was named when the server was started. Its id cannot be used again. */
function namedGoneError(reason: Parameters<typeof sessionGoneError>[0]): AmbitError {
  return new AmbitError(sessionGoneError(reason).code, { hint: namedHint });
}

function createPipeSessions({ sessions, settings, findWorkspaces, openIn }: StdioParts): PipeSessions {
  const { named, local } = settings;
  const openedHere = new Set<string>();
  let opening: Promise<Session> | undefined;

  async function findSession(): Promise<Session> {
    const session = await findNamedOrCreate();
    if (named.userId === undefined || named.userId === session.userId) return session;
    throw new AmbitError('UNAUTHENTICATED', {
      what: 'The session belongs to another user than the one this server was started for.',
      hint: namedHint,
    });
  }

  async function findNamedOrCreate(): Promise<Session> {
    if (named.token !== undefined) {
      const session = await sessions.verifyToken(named.token);
      if (named.id === undefined || named.id === session.id) return session;
      throw new AmbitError('UNAUTHENTICATED', {
        what: 'The session token in the environment is not a token of the session id there.',
        hint: namedHint,
      });
    }
    if (named.id === undefined) return createSession();
    for (;;) {
      const session = await sessions.load(named.id);
      if (session !== undefined) return session;
      const reason = await sessions.whyGone(named.id);
      if (reason !== undefined) throw namedGoneError(reason);
      try {
        return await createSession(named.id);
      } catch (error) {
        // Another process with the same id in its environment was faster.
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
  }

  async function findLocalWorkspace(): Promise<{ readonly workspaceId?: string }> {
    if (local.workspace === undefined) return {};
    const [workspaceId] = (await findWorkspaces(local)).findIds(local.workspace);
    if (workspaceId !== undefined) return { workspaceId };
    throw new AmbitError('CONFIG_INVALID', {
      what: 'The workspace that this server was started in is not one of its workspaces.',
      hint: 'Set "local.workspace", or the path of the workspace in the environment, to one of the option "workspaces".',
    });
  }

  async function createSession(id?: string): Promise<Session> {
    const { userId, agentId, trustLevel, permissions } = local;
    const { session } = await openIn({
      userId,
      trustLevel,
      permissions,
      ...(agentId === undefined ? {} : { agentId }),
      ...(id === undefined ? {} : { id }),
      ...(await findLocalWorkspace()),
    });
    if (id !== undefined) return session;
    openedHere.add(session.id);
    if (pipe.isClosed) await sessions.end(session.id, 'closed');
    return session;
  }

  function openOnce(): Promise<Session> {
    opening ??= findSession().catch((error: unknown) => {
      // Tried again with the next call: a store may come back.
      opening = undefined;
      throw error;
    });
    return opening;
  }

  /** An expired session is reported once, and the next call opens another. A session that was ended stays ended. */
  async function explainGone(id: string, opened: Promise<Session>): Promise<AmbitError> {
    const reason = await sessions.whyGone(id);
    const isNamed = (named.id ?? named.token) !== undefined;
    if (isNamed) return namedGoneError(reason);
    if (reason !== 'expired' && reason !== 'evicted') return sessionGoneError(reason);
    // Another call may have opened the next one already.
    if (opening === opened) opening = undefined;
    return new AmbitError('SESSION_EXPIRED', {
      hint: 'Call again to start a new session, without the state of this one.',
    });
  }

  const pipe: PipeSessions = {
    opened: openedHere,
    isClosed: false,
    async find() {
      if (opening !== undefined) return sessions.load((await opening).id);
      if (named.token !== undefined) return sessions.verifyToken(named.token);
      return named.id === undefined ? undefined : sessions.load(named.id);
    },
    async resolve() {
      const opened = openOnce();
      const { id } = await opened;
      const session = sessions.get(id) ?? (await sessions.load(id));
      if (session === undefined) throw await explainGone(id, opened);
      return {
        session,
        principal: { kind: 'local', userId: session.userId },
        credential: localCredential,
        workspaces: null,
        isCounted: true,
        isRenewable: false,
        explainGone: () => explainGone(id, opened),
      };
    },
  };
  return pipe;
}

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
