import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Keys } from '../../identity/keys.ts';
import type { Ceiling, Principal, UserPrincipal } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { OpenedSession, OpeningBounds } from '../../sessions/open-session.ts';
import type { Session, SessionDraft } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { isWithinCeiling } from '../../sessions/trust-bounds.ts';

/** Sessions of those who are not bound to one. `workspaceId` is the one they mean, where they may use only some. */
export interface SessionsOfUsers {
  openFor(principal: Principal, workspaceId?: string): Promise<Session>;
  /** The one session of a user who names none. Kept by name: found again after a restart, and by every process here. */
  defaultFor(principal: Principal, workspaceId?: string): Promise<Session>;
  /** The one session of a user for what a host calls a conversation. */
  hintedFor(principal: UserPrincipal, hint: string, workspaceId?: string): Promise<Session>;
  /** One that the user owns; whatever else has that id is as unknown as what never was. */
  chosenBy(principal: UserPrincipal, id: string): Promise<Session>;
}

export interface OfUsersOptions {
  readonly sessions: Sessions;
  readonly keys: Pick<Keys, 'isGood'>;
  open(draft: SessionDraft, bounds?: OpeningBounds): Promise<OpenedSession>;
  readonly log: Log;
}

/** A session found by name counts as found for this long: with each request it is used, so it does not expire. */
const foundMs = 750;
const mostFound = 10_000;
const mostTries = 16;

export function createSessionsOfUsers({ sessions, keys, open, log }: OfUsersOptions): SessionsOfUsers {
  const found = new Map<string, { readonly id: string; readonly at: number }>();

  async function opened(principal: Principal, name?: string, workspaceId?: string): Promise<Session> {
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

  function remembered(key: string): Session | undefined {
    const known = found.get(key);
    if (known === undefined || performance.now() - known.at >= foundMs) return undefined;
    return sessions.get(known.id);
  }

  function remember(key: string, session: Session, at: number): Session {
    found.delete(key);
    if (found.size >= mostFound) found.delete(found.keys().next().value as string);
    found.set(key, { id: session.id, at });
    return session;
  }

  async function byName(principal: Principal, name: string, workspaceId?: string): Promise<Session> {
    const { userId } = principal;
    const key = `${userId} ${name}`;
    const known = remembered(key);
    if (known !== undefined && isTheirs(known, principal)) return known;
    for (let tries = 0; tries < mostTries; tries++) {
      const at = performance.now();
      const record = await sessions.find(name, { userId });
      const session = record?.name === name ? sessions.get(record.id) : undefined;
      if (session !== undefined && !isTheirs(session, principal)) throw notTheirs();
      if (session !== undefined) return remember(key, session, at);
      try {
        return remember(key, await opened(principal, name, workspaceId), at);
      } catch (error) {
        // Somebody else was faster: theirs is found in the next round.
        if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
      }
    }
    throw new AmbitError('OVERLOADED');
  }

  return {
    openFor: (principal, workspaceId) => opened(principal, undefined, workspaceId),
    defaultFor: (principal, workspaceId) => byName(principal, defaultName(principal, workspaceId), workspaceId),
    hintedFor: (principal, hint, workspaceId) =>
      byName(principal, `hint:${digestOf([principal.userId, hint, boundsOf(principal, workspaceId)])}`, workspaceId),
    async chosenBy(principal, id) {
      const held = sessions.get(id);
      const session = held ?? (isReferable(id) ? await sessions.load(id) : undefined);
      if (session === undefined || !isTheirs(session, principal)) throw notTheirs();
      return session;
    },
  };
}

/** Whether a session may be used by whoever this is. */
export function isTheirs(session: Session, principal: Principal): boolean {
  if (session.userId !== principal.userId) return false;
  // Whoever opened it in the name of nobody: those who prove nothing are given nothing more.
  if (principal.kind === 'anonymous') return session.trustLevel === 'sandboxed' && session.permissions.length === 0;
  return principal.kind !== 'user' || isWithinCeiling(session, principal.ceiling);
}

/** Credentials with the same bounds share one; a narrower one has another, since it may not use the wider's. */
function defaultName(principal: Principal, workspaceId: string | undefined): string {
  const bounds = principal.kind === 'user' ? boundsOf(principal, workspaceId) : '';
  return bounds === '' ? 'default' : `default:${digestOf([bounds])}`;
}

/** Empty for a credential that bounds nothing. */
function boundsOf({ ceiling }: UserPrincipal, workspaceId: string | undefined): string {
  if (isUnbounded(ceiling)) return '';
  const { trustLevel, directIn, workspaces, scopes } = ceiling;
  const lists = [workspaces, scopes].map((names) => names && [...names].sort());
  const where = directIn === undefined ? [] : [[...directIn].sort()];
  return JSON.stringify([trustLevel, ...lists, workspaceId, ...where]);
}

function isUnbounded({ trustLevel, directIn, workspaces, scopes }: Ceiling): boolean {
  return trustLevel === 'direct' && directIn === undefined && workspaces === null && scopes === null;
}

function digestOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);
}

function isReferable(id: string): boolean {
  return /^[a-z0-9-]{1,64}$/.test(id);
}

function notTheirs(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'You have no session of that id that this credential may use.',
    hint: 'Name one of your own in _meta["ambit/use-session"], or leave it out.',
  });
}
