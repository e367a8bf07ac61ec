import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../errors.ts';
import type { Keys } from '../identity/keys.ts';
import type { Principal, UserPrincipal } from '../identity/principal.ts';
import type { Log } from '../observability/log/log.ts';
import type { ChosenSession } from '../protocol/client-selection.ts';
import type { OpenedSession, OpeningBounds } from './open-session.ts';
import type { Session, SessionDraft } from './session.ts';
import type { Sessions } from './sessions.ts';
import { isWithinCeiling } from './trust-bounds.ts';

/**
 * Finds and opens sessions for callers whose credential is not bound to one session. A session is found by everything
 * the credential says: user, agent, workspaces, trust level and permissions. `workspaceId` is the chosen workspace, if
 * the credential is limited to some.
 */
export interface UserSessions {
  openFor(principal: Principal, workspaceId?: string): Promise<Session>;
  /** Finds or opens the default session of a user. It has a name, so all processes find it, also after a restart. */
  defaultFor(principal: Principal, workspaceId?: string): Promise<Session>;
  /** Finds or opens the session for one conversation of a host. */
  hintedFor(principal: UserPrincipal, hint: string, workspaceId?: string): Promise<Session>;
  /** Finds a session of the user by its id. Sessions of others look as if they did not exist. */
  chosenBy(principal: UserPrincipal, id: string): Promise<Session>;
  /** Finds the session that a call of this user would use, if there is one. It opens none. */
  findChosen(principal: UserPrincipal, chosen: ChosenSession, workspaceId?: string): Promise<Session | undefined>;
}

interface UserSessionsOptions {
  readonly sessions: Sessions;
  /** Absent where no keys are stored. */
  readonly keys?: Pick<Keys, 'isGood'>;
  open(draft: SessionDraft, bounds?: OpeningBounds): Promise<OpenedSession>;
  readonly log: Log;
}

/** A session is not searched by name again for this long. It is in use, so it cannot expire. */
const recentMs = 750;
const maxRecent = 10_000;
const maxTries = 16;

export function createUserSessions({ sessions, keys, open, log }: UserSessionsOptions): UserSessions {
  const found = new Map<string, { readonly id: string; readonly at: number }>();

  async function openSession(principal: Principal, name?: string, workspaceId?: string): Promise<Session> {
    const named = name === undefined ? {} : { name };
    const { userId } = principal;
    if (principal.kind !== 'user') {
      log.warn('anonymous session opened', { user: userId });
      return (await open({ userId, trustLevel: 'sandboxed', ...named }, { openedBy: 'anonymous' })).session;
    }
    const { keyId, ceiling } = principal;
    const openedBy = principal.via === 'key' ? 'key' : 'access-token';
    const draft = { ...createUserDraft(principal, workspaceId), ...named };
    const { session } = await open(draft, { ceiling, openedBy });
    // If the key was revoked meanwhile, its sessions may have been ended just before this one was opened.
    if (keyId !== undefined && (await keys?.isGood(keyId)) === false) {
      await sessions.end(session.id, 'revoked');
      throw new AmbitError('UNAUTHENTICATED');
    }
    return session;
  }

  function findRecent(key: string): Session | undefined {
    const known = found.get(key);
    if (known === undefined || performance.now() - known.at >= recentMs) return undefined;
    return sessions.get(known.id);
  }

  function rememberSession(key: string, session: Session, at: number): Session {
    found.delete(key);
    if (found.size >= maxRecent) found.delete(found.keys().next().value as string);
    found.set(key, { id: session.id, at });
    return session;
  }

  async function findOrOpen(principal: Principal, name: string, workspaceId?: string): Promise<Session> {
    const { userId } = principal;
    const key = `${userId} ${name}`;
    const known = findRecent(key);
    if (known !== undefined && mayUseSession(known, principal)) return known;
    for (let tries = 0; tries < maxTries; tries++) {
      const at = performance.now();
      const record = await sessions.find(name, { userId });
      const session = record?.name === name ? sessions.get(record.id) : undefined;
      if (session !== undefined && !mayUseSession(session, principal)) throw sessionNotUsableError();
      if (session !== undefined) return rememberSession(key, session, at);
      try {
        return rememberSession(key, await openSession(principal, name, workspaceId), at);
      } catch (error) {
        // Another request was faster: the next round finds its session.
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
    throw new AmbitError('OVERLOADED');
  }

  const hintedName = (principal: UserPrincipal, hint: string, workspaceId: string | undefined) =>
    `hint:${digestParts([principal.userId, hint, ceilingKey(principal, workspaceId)])}`;

  return {
    openFor: (principal, workspaceId) => openSession(principal, undefined, workspaceId),
    defaultFor: (principal, workspaceId) =>
      findOrOpen(principal, defaultSessionName(principal, workspaceId), workspaceId),
    hintedFor: (principal, hint, workspaceId) =>
      findOrOpen(principal, hintedName(principal, hint, workspaceId), workspaceId),
    async chosenBy(principal, id) {
      const session = sessions.get(id) ?? (isSessionId(id) ? await sessions.load(id) : undefined);
      if (session === undefined || !mayUseSession(session, principal)) throw sessionNotUsableError();
      return session;
    },
    async findChosen(principal, { id, hint }, workspaceId) {
      const { userId } = principal;
      const name =
        hint === undefined ? defaultSessionName(principal, workspaceId) : hintedName(principal, hint, workspaceId);
      const named = id === undefined ? await sessions.find(name, { userId }) : undefined;
      const chosenId = named?.name === name ? named.id : id;
      const session = chosenId !== undefined && isSessionId(chosenId) ? await sessions.load(chosenId) : undefined;
      return session !== undefined && mayUseSession(session, principal) ? session : undefined;
    },
  };
}

/** The draft of a session that a user opens by calling. */
export function createUserDraft(
  { userId, keyId, ceiling }: UserPrincipal,
  workspaceId: string | undefined,
): SessionDraft & { readonly userId: string } {
  return {
    userId,
    permissions: ceiling.scopes ?? [],
    ...(ceiling.agentId === undefined ? {} : { agentId: ceiling.agentId }),
    ...(workspaceId === undefined ? {} : { workspaceId }),
    ...(keyId === undefined ? {} : { keyId }),
  };
}

/** Tells whether a principal may use a session. */
export function mayUseSession(session: Session, principal: Principal): boolean {
  if (session.userId !== principal.userId) return false;
  // Anonymous callers get nothing more, whoever opened the session.
  if (principal.kind === 'anonymous') return session.trustLevel === 'sandboxed' && session.permissions.length === 0;
  return principal.kind !== 'user' || isWithinCeiling(session, principal.ceiling);
}

/** Returns the name of the default session. Credentials with the same limits share one; others must not use it. */
function defaultSessionName(principal: Principal, workspaceId: string | undefined): string {
  const bounds = principal.kind === 'user' ? ceilingKey(principal, workspaceId) : '';
  return bounds === '' ? 'default' : `default:${digestParts([bounds])}`;
}

/** Returns an empty key for a credential without limits. */
function ceilingKey({ ceiling }: UserPrincipal, workspaceId: string | undefined): string {
  const { trustLevel, directIn, workspaces, scopes, agentId } = ceiling;
  const isLimited = directIn !== undefined || workspaces !== null || scopes !== null || agentId !== undefined;
  if (trustLevel === 'direct' && !isLimited) return '';
  const lists = [workspaces, scopes].map((names) => names && [...names].sort());
  const where = directIn && [...directIn].sort();
  const further = agentId !== undefined ? [where, agentId] : where === undefined ? [] : [where];
  return JSON.stringify([trustLevel, ...lists, workspaceId, ...further]);
}

function digestParts(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function isSessionId(id: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(id);
}

export function sessionNotUsableError(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'You have no session with that id that this credential may use.',
    hint: 'Set _meta["ambit/use-session"] to the id of one of your sessions, or leave it out.',
  });
}
