import { expect } from 'vitest';
import { attempts, cancelCall, releasePipe } from '../clients/checks/check-cancellation-and-end.ts';
import { findProgress } from '../clients/evidence/wire-log.ts';
import { type CheckParts, readPart } from './feature-checks.ts';

/** A call taken back reaches the upstream as such, and the client hears no more of it. */
export async function checkCancellation(visit: CheckParts): Promise<void> {
  const { client, script } = visit;
  const { tool, args, pipe } = readPart(visit, 'cancel');
  for (let attempt = 0; attempt < attempts; attempt++) {
    const call = await cancelCall(visit, tool, args);
    // The answer may have been on its way already: then there was nothing to cancel.
    if (!call.seen.cancelled) continue;
    const before = findProgress(client.wire, call.id).before.length;
    if (pipe !== undefined) await releasePipe(pipe);
    const next = pipe === undefined ? { tool, args } : script.call;
    await client.call(next.tool, next.args);
    expect(findProgress(client.wire, call.id).before).toHaveLength(before);
    return;
  }
  throw new Error('the upstream answered before it could be told, every time');
}
