import { AmbitError } from '../../../errors.ts';
import type { Channel } from '../../../protocol/channel.ts';
import type { Call } from '../link.ts';
import type { Tenancy } from '../link-pool.ts';
import type { PendingCalls } from '../relay/pending-calls.ts';

/** The sessions that share one process, kept apart where the process itself says nothing. */
export interface Sharers {
  /** A fresh process knows nobody. */
  startOver(): void;
  /** The session of a call that may be sent now; throws when that session is no longer served here. */
  admit(call: Call, pending: PendingCalls): string;
  sole(): string | null | undefined;
  readonly clogged: WeakSet<Channel>;
  passOver(full: Channel): void;
}

/** One session can take this part of the room there is for calls. */
const fairPart = 4;

export function createSharers({ users }: Tenancy, mostPending: number): Sharers {
  let served: string | undefined;
  let mixed = false;
  const clogged = new WeakSet<Channel>();
  const fair = Math.max(1, Math.floor(mostPending / fairPart));

  return {
    clogged,
    startOver() {
      served = undefined;
      mixed = false;
    },
    admit(call, pending) {
      const sessionId = sessionOf(call);
      if (sessionId === '') return sessionId;
      // A call may have waited for the process while its session ended or was narrowed.
      if (!users.has(sessionId)) {
        throw new AmbitError('SESSION_ENDED', { what: 'The session has ended, or may no longer use this server.' });
      }
      if (pending.size() >= fair && pending.ofSession(sessionId).length >= fair) throw new AmbitError('OVERLOADED');
      if (served === undefined) served = sessionId;
      else if (served !== sessionId) mixed = true;
      return sessionId;
    },
    sole: () => (mixed ? null : (served ?? null)),
    passOver(full) {
      clogged.add(full);
      const forget = () => void clogged.delete(full);
      full.onDrain(forget);
      full.onGone(forget);
    },
  };
}

/** Whom a call is for; empty for what Ambit asks for itself. */
export function sessionOf({ acting, caller }: Call): string {
  return acting?.session.id ?? caller?.sessionId ?? '';
}
