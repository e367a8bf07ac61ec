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
      void releaseAll(grants, true, 0);
      throw error;
    }
    return { owner: familyOwner, grants };
  }

  return (session: Session, counted: boolean): AcquiredGrant | Promise<AcquiredGrant> =>
    counted && session.parentId !== undefined ? acquireFamily(session) : options.acquire(session, counted);
}

const familyOwner: GrantOwner = {
  release: (grant: FamilyGrant, counted, bytes) => releaseAll(grant.grants, counted, bytes),
};

function releaseAll(grants: readonly Grant[], counted: boolean, bytes: number): Promise<void> | undefined {
  const pending = grants.flatMap((grant) => grant.owner.release(grant, counted, bytes) ?? []);
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
