import { hostname } from 'node:os';
import type { SessionMarks } from '../../stores/state.ts';

/** Who tells something to a client just now; given back when it could not be told. */
export interface DeliveryClaim {
  /** `told` says that it is written down that it was told: then nobody needs to know who has tried before. */
  release(told: boolean): Promise<void>;
}

interface ClaimMark {
  readonly host: string;
  readonly pid: number;
  readonly until: number;
}

const leaseMs = 10_000;
const maxTakeovers = 16;

/**
 * Of several who want to tell the same, in however many processes, one has the claim. One whose owner has died, or that
 * is older than its lease, can be taken over: by the next in a row of marks, since a mark is never written over and of
 * those who put the next one, one is first. Only its owner takes a claim away again.
 */
export async function claimDelivery(
  marks: SessionMarks,
  sessionId: string,
  what: string,
  now: () => number,
): Promise<DeliveryClaim | 'taken'> {
  const own: ClaimMark = { host: hostname(), pid: process.pid, until: now() + leaseMs };
  for (let place = 0; place < maxTakeovers; place++) {
    const key = `claim:${what}:${place}`;
    const put = await marks.put(sessionId, key, JSON.stringify(own));
    if (put.outcome === 'put') {
      return {
        async release(told) {
          for (let each = place; each >= (told ? 0 : place); each--) {
            await marks.delete(sessionId, `claim:${what}:${each}`);
          }
        },
      };
    }
    if (put.outcome !== 'present' || isClaimAlive(put.value, now())) return 'taken';
  }
  return 'taken';
}

function isClaimAlive(value: string, at: number): boolean {
  try {
    const { host, pid, until } = JSON.parse(value) as ClaimMark;
    return until > at && (host !== hostname() || isProcessRunning(pid));
  } catch {
    return false;
  }
}

function isProcessRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
