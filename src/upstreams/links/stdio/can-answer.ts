import type { Caller } from '../caller.ts';
import { carriers, type PendingCalls } from '../relay/pending.ts';

/** Whether somebody is there to answer what a server asks. */
export function canAnswer(callers: ReadonlySet<Caller>, pending: PendingCalls): boolean {
  for (const { stream, underWay } of callers) {
    if (stream?.isGone() === false || [...underWay].some((channel) => !channel.isGone())) return true;
  }
  // Modern clients behind a bridge are no callers: they are asked in the answer to a call that can carry a question.
  return callers.size === 0 && pending.youngest((call) => carriers.has(call.method)) !== undefined;
}
