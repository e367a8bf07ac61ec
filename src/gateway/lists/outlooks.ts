import type { UserPrincipal } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import { isWithinCeiling } from '../../sessions/trust-bounds.ts';
import type { SessionRecord } from '../../stores/record.ts';

/** More than these are hardly ever different from all of them. */
const most = 8;

/**
 * Sessions of a user that may differ in what they could use, one of each kind, as many as there are beside the one
 * given. What its server, rules and workspace go by makes a kind.
 */
export async function otherOutlooks(sessions: Sessions, principal: UserPrincipal, own: Session): Promise<Session[]> {
  const { userId, ceiling } = principal;
  const kinds = new Map<string, string>([[kindOf(own), own.id]]);
  for (let after: string | null | undefined; after !== null && kinds.size <= most; ) {
    const page = await sessions.list({ userId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
    for (const record of page.sessions) {
      const kind = kindOf(record);
      if (isWithinCeiling(record, ceiling) && !kinds.has(kind)) kinds.set(kind, record.id);
    }
    after = page.next;
  }
  const ids = [...kinds.values()].slice(1, most);
  return (await Promise.all(ids.map((id) => sessions.load(id)))).filter((each) => each !== undefined);
}

function kindOf({ trustLevel, workspaceId, agentId, servers, permissions }: Session | SessionRecord): string {
  const lists = [servers ?? undefined, permissions].map((names) => names && [...names].sort());
  return JSON.stringify([trustLevel, workspaceId ?? null, agentId ?? null, ...lists.map((names) => names ?? null)]);
}
