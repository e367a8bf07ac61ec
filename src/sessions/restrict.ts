import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { isTrustAtMost } from '../rules/trust-level.ts';
import { checkServers } from './check-fields.ts';
import type { Restriction, Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** Returns the session with tighter bounds, or the same object when they do not differ. Wider bounds are refused. */
export function restrictRecord(session: Session, change: Restriction): Session {
  const { trustLevel = session.trustLevel, ttlSeconds = session.ttlSeconds } = change;
  const servers = change.servers === undefined ? session.servers : [...new Set(change.servers)];
  const permissions = change.permissions === undefined ? session.permissions : [...new Set(change.permissions)];
  if (!isTrustAtMost(trustLevel, session.trustLevel)) {
    throw new AmbitError('TRUST_REQUIRED', {
      what: `The session is "${session.trustLevel}"; it cannot be made "${trustLevel}".`,
      hint: 'A session can only be restricted further. Ask the orchestrator for a new session.',
      rule: 'session.trustLevel',
    });
  }
  if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > session.ttlSeconds) {
    throw widerError(`The ttl of the session is ${session.ttlSeconds} s; it can only be shortened, in whole seconds.`);
  }
  const added = session.servers === undefined ? [] : (servers ?? []).filter((each) => !session.servers?.includes(each));
  if (added.length > 0) {
    throw widerError(`The server "${added[0]}" is not in the list of servers of the session.`, 'session.servers');
  }
  const gained = permissions.find((each) => !session.permissions.includes(each));
  if (gained !== undefined) {
    throw widerError(`The session does not have the permission "${gained.slice(0, 60)}".`, 'session.permissions');
  }
  const fewer = servers !== undefined && servers.length !== session.servers?.length;
  const lost = permissions.length !== session.permissions.length;
  if (trustLevel === session.trustLevel && ttlSeconds === session.ttlSeconds && !fewer && !lost) return session;
  return Object.freeze({
    ...session,
    trustLevel,
    ttlSeconds,
    servers: servers === undefined ? undefined : Object.freeze(servers),
    permissions: Object.freeze(permissions),
  });
}

function widerError(what: string, rule?: string): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what,
    hint: 'A session can only be restricted further.',
    ...(rule === undefined ? {} : { rule }),
  });
}

/** Restricts a live session. Names of servers are checked as when it was opened; its own may be gone since. */
export async function restrictSession(
  sessions: Sessions,
  config: Config,
  id: string,
  restriction: Restriction,
): Promise<Session> {
  const session = await sessions.load(id);
  if (session === undefined) throw new AmbitError('SESSION_NOT_FOUND');
  if (Object.keys(restriction).length === 0) {
    throw new AmbitError('REQUEST_INVALID', {
      what: 'There is nothing to restrict: give trust, ttl, servers or permissions.',
    });
  }
  const { servers, ...rest } = restriction;
  if (servers === undefined) return sessions.restrict(id, rest);
  return sessions.restrict(id, { ...rest, servers: checkServers(servers, config, session.servers) });
}
