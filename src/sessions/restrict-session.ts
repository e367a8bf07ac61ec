import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { checkServers } from './check-servers.ts';
import type { Narrowing, Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** Narrows a live session. Names of servers are checked as when it was opened; those it has may be gone since. */
export async function restrictSession(
  sessions: Sessions,
  config: Config,
  id: string,
  change: Narrowing,
): Promise<Session> {
  const session = await sessions.load(id);
  if (session === undefined) throw new AmbitError('SESSION_NOT_FOUND');
  if (Object.keys(change).length === 0) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'Nothing was said to narrow: trust, ttl, servers or permissions.',
    });
  }
  const { servers, ...rest } = change;
  if (servers === undefined) return sessions.restrict(id, rest);
  return sessions.restrict(id, { ...rest, servers: checkServers(servers, config, session.servers) });
}
