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
/** More than the levels of a tree. */
const maxIdleTries = 64;

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

  /** Acquires what keeps a session and its ancestors alive while a call waits. Loads records that have changed. */
  async function acquireIdle(session: Session): Promise<FamilyGrant> {
    const grants: Grant[] = [];
    let id: string | undefined = session.id;
    for (let tries = 0; id !== undefined && tries < maxIdleTries; tries++) {
      const each: Session | undefined = options.get(id) ?? (await options.load(id));
      if (each === undefined) break;
      try {
        grants.push(await options.acquire(each, false));
        id = each.parentId;
      } catch (error) {
        // The record was changed elsewhere, and the current one is loaded now.
        if (!(error instanceof StaleSessionError)) break;
      }
    }
    return { owner: familyOwner, grants };
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

  function acquire(session: Session, counted: boolean): AcquiredGrant | Promise<AcquiredGrant> {
    if (session.parentId === undefined) return options.acquire(session, counted);
    return counted ? acquireFamily(session) : acquireUncounted(session);
  }

  return { acquire, acquireIdle };
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
