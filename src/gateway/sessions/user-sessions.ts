import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Keys } from '../../identity/keys.ts';
import type { Ceiling, Principal, UserPrincipal } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { OpenedSession, OpeningBounds } from '../../sessions/open-session.ts';
import type { Session, SessionDraft } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { isWithinCeiling } from '../../sessions/within-ceiling.ts';

/** Sessions of those who are not bound to one. `workspaceId` is the one they mean, where they may use only some. */
export interface UserSessions {
  openFor(principal: Principal, workspaceId?: string): Promise<Session>;
  /** The one session of a user who names none. Kept by name: found again after a restart, and by every process here. */
  defaultFor(principal: Principal, workspaceId?: string): Promise<Session>;
  /** The one session of a user for what a host calls a conversation. */
  hintedFor(principal: UserPrincipal, hint: string, workspaceId?: string): Promise<Session>;
  /** One that the user owns; whatever else has that id is as unknown as what never was. */
  chosenBy(principal: UserPrincipal, id: string): Promise<Session>;
}

interface UserSessionsOptions {
  readonly sessions: Sessions;
  readonly keys: Pick<Keys, 'isGood'>;
  open(draft: SessionDraft, bounds?: OpeningBounds): Promise<OpenedSession>;
  readonly log: Log;
}

/** A session found by name counts as found for this long: with each request it is used, so it does not expire. */
const recentMs = 750;
const maxRecent = 10_000;
const maxTries = 16;

export function createUserSessions({ sessions, keys, open, log }: UserSessionsOptions): UserSessions {
  const found = new Map<string, { readonly id: string; readonly at: number }>();

  async function openSession(principal: Principal, name?: string, workspaceId?: string): Promise<Session> {
    const named = name === undefined ? {} : { name };
    const { userId } = principal;
    if (principal.kind !== 'user') {
      log.warn('session opened for nobody in particular', { user: userId });
      return (await open({ userId, trustLevel: 'sandboxed', ...named })).session;
    }
    const { keyId, ceiling } = principal;
    const draft = {
      userId,
      permissions: ceiling.scopes ?? [],
      ...named,
      ...(workspaceId === undefined ? {} : { workspaceId }),
      ...(keyId === undefined ? {} : { keyId }),
    };
    const { session } = await open(draft, { ceiling });
    // Revoked in between: whoever revoked the key may have looked for its sessions just before this one was there.
    if (keyId !== undefined && !(await keys.isGood(keyId))) {
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
      if (session !== undefined && !mayUseSession(session, principal)) throw sessionNotFoundError();
      if (session !== undefined) return rememberSession(key, session, at);
      try {
        return rememberSession(key, await openSession(principal, name, workspaceId), at);
      } catch (error) {
        // Somebody else was faster: theirs is found in the next round.
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
    throw new AmbitError('OVERLOADED');
  }

  return {
    openFor: (principal, workspaceId) => openSession(principal, undefined, workspaceId),
    defaultFor: (principal, workspaceId) =>
      findOrOpen(principal, defaultSessionName(principal, workspaceId), workspaceId),
    hintedFor: (principal, hint, workspaceId) =>
      findOrOpen(
        principal,
        `hint:${digestParts([principal.userId, hint, ceilingKey(principal, workspaceId)])}`,
        workspaceId,
      ),
    async chosenBy(principal, id) {
      const held = sessions.get(id);
      const session = held ?? (isSessionId(id) ? await sessions.load(id) : undefined);
      if (session === undefined || !mayUseSession(session, principal)) throw sessionNotFoundError();
      return session;
    },
  };
}

/** Whether a session may be used by whoever this is. */
export function mayUseSession(session: Session, principal: Principal): boolean {
  if (session.userId !== principal.userId) return false;
  // Whoever opened it in the name of nobody: those who prove nothing are given nothing more.
  if (principal.kind === 'anonymous') return session.trustLevel === 'sandboxed' && session.permissions.length === 0;
  return principal.kind !== 'user' || isWithinCeiling(session, principal.ceiling);
}

/** Credentials with the same bounds share one; a narrower one has another, since it may not use the wider's. */
function defaultSessionName(principal: Principal, workspaceId: string | undefined): string {
  const bounds = principal.kind === 'user' ? ceilingKey(principal, workspaceId) : '';
  return bounds === '' ? 'default' : `default:${digestParts([bounds])}`;
}

/** Empty for a credential that bounds nothing. */
function ceilingKey({ ceiling }: UserPrincipal, workspaceId: string | undefined): string {
  if (isUnbounded(ceiling)) return '';
  const { trustLevel, directIn, workspaces, scopes } = ceiling;
  const lists = [workspaces, scopes].map((names) => names && [...names].sort());
  const where = directIn === undefined ? [] : [[...directIn].sort()];
  return JSON.stringify([trustLevel, ...lists, workspaceId, ...where]);
}

function isUnbounded({ trustLevel, directIn, workspaces, scopes }: Ceiling): boolean {
  return trustLevel === 'direct' && directIn === undefined && workspaces === null && scopes === null;
}

function digestParts(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function isSessionId(id: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(id);
}

function sessionNotFoundError(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'You have no session of that id that this credential may use.',
    hint: 'Name one of your own in _meta["ambit/use-session"], or leave it out.',
  });
}
