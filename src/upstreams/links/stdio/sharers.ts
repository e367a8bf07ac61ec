import { AmbitError } from '../../../errors.ts';
import type { Channel } from '../../../protocol/channel.ts';
import type { Call } from '../link.ts';
import type { Tenancy } from '../link-pool.ts';
import type { PendingCalls } from '../relay/pending-calls.ts';

/** The sessions that share one process, kept apart where the process itself says nothing. */
export interface ProcessSharers {
  /** A fresh process knows nobody. */
  startOver(): void;
  /** The session of a call that may be sent now; throws when that session is no longer served here. */
  assertAdmitted(call: Call, pending: PendingCalls): string;
  soleSessionId(): string | null | undefined;
  readonly fullChannels: WeakSet<Channel>;
  skipChannel(full: Channel): void;
}

/** One session can take this part of the room there is for calls. */
const fairPart = 4;

export function createSharers({ users }: Tenancy, maxPending: number): ProcessSharers {
  let served: string | undefined;
  let mixed = false;
  const fullChannels = new WeakSet<Channel>();
  const fair = Math.max(1, Math.floor(maxPending / fairPart));

  return {
    fullChannels,
    startOver() {
      served = undefined;
      mixed = false;
    },
    assertAdmitted(call, pending) {
      const sessionId = sessionIdOf(call);
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
    soleSessionId: () => (mixed ? null : (served ?? null)),
    skipChannel(full) {
      fullChannels.add(full);
      const forget = () => void fullChannels.delete(full);
      full.onDrain(forget);
      full.onGone(forget);
    },
  };
}

/** Whom a call is for; empty for what Ambit asks for itself. */
export function sessionIdOf({ acting, caller }: Call): string {
  return acting?.session.id ?? caller?.sessionId ?? '';
}
