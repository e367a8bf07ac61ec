import type { AcquiredGrant } from './grants.ts';
import type { Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** A request that was admitted, until it is released. */
export interface HeldCall {
  /** Gives back the place among the concurrent calls: a call that waits for other sessions holds up nobody. */
  freePlace(): void;
  /** Must be called once. A promise as in `GrantOwner.release`. */
  release(bytes: number): Promise<void> | undefined;
}

export function holdCall(
  sessions: Pick<Sessions, 'acquireIdle'>,
  session: Session,
  grant: AcquiredGrant,
  counted: boolean,
): HeldCall {
  /** Undefined while a grant that only keeps the session alive is acquired. */
  let held: AcquiredGrant | undefined = grant;
  let counts = counted;
  let isReleased = false;
  let lateBytes = 0;
  let pending: Promise<void> | undefined;

  async function keepAlive(): Promise<void> {
    const idle = await sessions.acquireIdle(session);
    if (isReleased) await idle.owner.release(idle, false, lateBytes);
    else held = idle;
  }

  return {
    freePlace() {
      if (!counts || isReleased) return;
      counts = false;
      void grant.owner.release(grant, true, 0);
      held = undefined;
      // Whatever has become of the session, the tool finds out.
      pending = keepAlive().catch(() => {});
    },
    release(bytes) {
      isReleased = true;
      lateBytes = bytes;
      return held === undefined ? pending : held.owner.release(held, counts, bytes);
    },
  };
}
