import { AmbitError, isAmbitError } from '../errors.ts';
import { type AcquiredGrant, type Grant, type GrantOwner, StaleSessionError } from './grants.ts';
import type { Session } from './session.ts';

interface FamilyGrant extends AcquiredGrant {
  readonly grants: readonly Grant[];
}

interface FamilyGrantsOptions {
  /** Acquires one call of this session alone. */
  acquire(session: Session, counted: boolean): Grant | Promise<Grant>;
  /** Loads a live session. */
  load(id: string): Promise<Session | undefined>;
  get(id: string): Session | undefined;
  /** Ends a session whose parent is gone, and returns the error for its caller. */
  endOrphan(session: Session): Promise<AmbitError>;
}

const maxTries = 4;

/**
 * Acquires calls of sessions. A call of a child is also a call of its parent, and of the parent's parent: however many
 * sessions a session opens, all of them together have its quota. The call keeps the ancestors from expiring too.
 */
export function createFamilyGrants(options: FamilyGrantsOptions) {
  async function acquireParent(child: Session): Promise<readonly [Session, Grant]> {
    const id = child.parentId as string;
    for (let tries = 0; tries < maxTries; tries++) {
      const parent = options.get(id) ?? (await options.load(id));
      if (parent === undefined) throw await options.endOrphan(child);
      try {
        return [parent, await options.acquire(parent, true)];
      } catch (error) {
        // The record was changed elsewhere, and the current one is loaded now.
        if (error instanceof StaleSessionError) continue;
        if (!isAmbitError(error)) throw error;
        if (error.code === 'QUOTA_EXCEEDED') throw parentQuotaError(error);
        if (error.code === 'SESSION_EXPIRED' || error.code === 'SESSION_ENDED') throw await options.endOrphan(child);
        throw error;
      }
    }
    throw new AmbitError('SESSION_STALE');
  }

  async function acquireFamily(session: Session): Promise<FamilyGrant> {
    // The session's own quota comes first: a child that has used up its own takes nothing from its parent.
    const grants = [await options.acquire(session, true)];
    try {
      for (let child = session; child.parentId !== undefined; ) {
        const [parent, grant] = await acquireParent(child);
        grants.push(grant);
        child = parent;
      }
    } catch (error) {
      // The call is not made, so it takes nothing from the sessions below the one that refuses it.
      void releaseAll(grants, true, 0, true);
      throw error;
    }
    return { owner: familyOwner, grants };
  }

  /** Tells whether all ancestors are loaded, and so live as far as this process knows. */
  function hasKnownAncestors(session: Session): boolean {
    for (let { parentId } = session; parentId !== undefined; ) {
      const parent = options.get(parentId);
      if (parent === undefined) return false;
      parentId = parent.parentId;
    }
    return true;
  }

  /** Acquires a request that is not counted, of a child whose ancestors are looked for first. */
  async function acquireUncounted(session: Session): Promise<Grant> {
    for (let child = session; child.parentId !== undefined; ) {
      const parent: Session | undefined = options.get(child.parentId) ?? (await options.load(child.parentId));
      if (parent === undefined) throw await options.endOrphan(child);
      child = parent;
    }
    return options.acquire(session, false);
  }

  return (session: Session, counted: boolean): AcquiredGrant | Promise<AcquiredGrant> => {
    if (session.parentId === undefined) return options.acquire(session, counted);
    if (counted) return acquireFamily(session);
    return hasKnownAncestors(session) ? options.acquire(session, false) : acquireUncounted(session);
  };
}

const familyOwner: GrantOwner = {
  release: (grant: FamilyGrant, counted, bytes, isUnused) => releaseAll(grant.grants, counted, bytes, isUnused),
};

function releaseAll(
  grants: readonly Grant[],
  counted: boolean,
  bytes: number,
  isUnused = false,
): Promise<void> | undefined {
  const pending = grants.flatMap((grant) => grant.owner.release(grant, counted, bytes, isUnused) ?? []);
  return pending.length === 0 ? undefined : Promise.all(pending).then(() => {});
}

function parentQuotaError({ message, hint, rule, retryAfterMs }: AmbitError): AmbitError {
  return new AmbitError('QUOTA_EXCEEDED', {
    what: `A parent of this session shares its quota with it. ${message}`,
    hint,
    ...(rule === undefined ? {} : { rule }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}
