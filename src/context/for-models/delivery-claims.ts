import { hostname } from 'node:os';
import type { SessionMarks } from '../../stores/state.ts';

/** The exclusive right to deliver something to a client. */
export interface DeliveryClaim {
  /** Releases the claim. `delivered` means that the delivery is recorded, so earlier claims are removed as well. */
  release(delivered: boolean): Promise<void>;
}

interface ClaimMark {
  readonly host: string;
  readonly pid: number;
  readonly until: number;
}

const leaseMs = 10_000;
const maxTakeovers = 16;

/**
 * Claims a delivery, so that one of several callers in any number of processes makes it. A claim whose owner died, or
 * that is older than its lease, is taken over with the next mark in a row: a mark is never overwritten, and only one
 * caller is first to put the next. Only its owner removes a claim.
 */
export async function claimDelivery(
  marks: SessionMarks,
  sessionId: string,
  what: string,
  now: () => number,
): Promise<DeliveryClaim | 'taken'> {
  const own: ClaimMark = { host: hostname(), pid: process.pid, until: now() + leaseMs };
  for (let index = 0; index < maxTakeovers; index++) {
    const put = await marks.put(sessionId, `claim:${what}:${index}`, JSON.stringify(own));
    if (put.outcome === 'put') {
      return {
        async release(delivered) {
          for (let each = index; each >= (delivered ? 0 : index); each--) {
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
