import { StaleSessionError } from '../../sessions/grants.ts';
import { notAvailableError, type ServerResolution } from '../../upstreams/access/resolution.ts';
import type { InProcessServer, ServerDefinition } from '../../upstreams/definition.ts';
import { type AuthorizedExchange, allServers, type SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

const noServers: readonly ServerDefinition[] = [];

/**
 * Finds the server of this address, or at the address of all servers those that the session may use. A server that does
 * not exist and one that the session may not use look alike.
 */
export function authorize(
  resolution: ServerResolution,
  own: InProcessServer,
): BeforeStage<SessionExchange, Pick<AuthorizedExchange, 'decidedAt' | 'upstream' | 'available'>> {
  return {
    name: 'authorize',
    refuses: ['SERVER_NOT_AVAILABLE'],
    before({ session, server, entry }) {
      const decidedAt = resolution.revision();
      if (server === allServers) {
        const available = resolution.listAvailable(session);
        if (available.length === 0 && !resolution.hasSession(session)) throw new StaleSessionError();
        entry.admitted = true;
        return { decidedAt, upstream: undefined, available };
      }
      const found = server === own.name ? { server: own } : resolution.find(session, server);
      if (found.server !== undefined) {
        entry.admitted = true;
        return { decidedAt, upstream: found.server, available: noServers };
      }
      if (!resolution.hasSession(session)) throw new StaleSessionError();
      // The reason goes to the journal only, not to the caller.
      entry.rule = found.removal?.rule;
      throw notAvailableError(server);
    },
  };
}
