import { AmbitError } from '../../../errors.ts';
import type { Channel } from '../../../protocol/channel.ts';
import type { UpstreamCall } from '../link.ts';
import type { LinkUsers } from '../link-pool.ts';
import type { PendingCalls } from '../relay/pending-calls.ts';

/** The sessions that share one process. */
export interface ProcessSharers {
  /** Called for a fresh process, which has served no session. */
  startOver(): void;
  /** Returns the session of a call; throws when that session no longer uses the process, or has too many calls. */
  assertAdmitted(call: UpstreamCall, pending: PendingCalls): string;
  soleSessionId(): string | null | undefined;
  readonly fullChannels: WeakSet<Channel>;
  skipChannel(full: Channel): void;
}

/** The part of all pending calls that one session may have. */
const fairPart = 4;

export function createSharers({ sessions: users }: LinkUsers, maxPending: number): ProcessSharers {
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
      // The session may have ended or been restricted while the call waited for the process.
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

/** The session of a call; empty for requests of Ambit's own. */
export function sessionIdOf({ acting, caller }: UpstreamCall): string {
  return acting?.session.id ?? caller?.sessionId ?? '';
}
