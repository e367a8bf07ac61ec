import type { Callers } from '../upstreams/caller.ts';
import { allServers } from './aggregate/for-all.ts';

const changes = ['tools', 'prompts', 'resources'].map((what) =>
  Buffer.from(`{"jsonrpc":"2.0","method":"notifications/${what}/list_changed"}`),
);

/** Tells the handshake-era clients of all servers that the lists are others now; modern ones hear it on their stream. */
export function announceChange(callers: Callers): void {
  for (const caller of callers.ofServer(allServers)) {
    if (caller.stream === undefined || caller.stream.gone) continue;
    for (const change of changes) caller.stream.emit(change);
  }
}
