import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import { allServers } from '../routing/for-all.ts';

const changes = ['tools', 'prompts', 'resources'].map((what) =>
  Buffer.from(`{"jsonrpc":"2.0","method":"notifications/${what}/list_changed"}`),
);

/**
 * Tells handshake-era clients of these servers, and of all servers, that the lists are others now; modern ones hear it
 * on their stream. Where it concerns only some, the others hear nothing: what one tenant does is not theirs to know.
 */
export function announceChange(
  callers: Callers,
  servers: readonly string[],
  concerns: (caller: Caller) => boolean = () => true,
): void {
  for (const caller of [allServers, ...servers].flatMap(callers.ofServer)) {
    if (caller.parent !== undefined || caller.stream === undefined || caller.stream.isGone()) continue;
    if (!concerns(caller)) continue;
    for (const change of changes) caller.stream.emit(change);
  }
}
