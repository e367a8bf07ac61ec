import { randomUUID } from 'node:crypto';
import type { Session } from '../../sessions/session.ts';
import { sessionGoneError } from '../../sessions/session.ts';
import { freezeContext, type InheritedContext, type VerifiedContext } from '../sdk/context.ts';
import type { ResolvedSession, SessionLayer } from './resolved-session.ts';

const gatewayPrefix = 'ambit:';

/** A context that names its session: signed, or from the environment in which Ambit started this process. */
export type NamingContext = VerifiedContext | (InheritedContext & { readonly sessionId: string });

/**
 * Finds the session of a call that came through Ambit, which decides its life and its bounds. This server only keeps
 * state for it: in Ambit's own record where both use one store, else in a record under the session's name.
 */
export async function gatewaySessions(layer: SessionLayer, context: NamingContext): Promise<ResolvedSession> {
  const { sessionId, userId = layer.settings.local.userId } = context;
  const name = `${gatewayPrefix}${sessionId}` as const;
  const known = layer.namedSessions.get(userId, name);
  const shared = known === undefined ? await findGatewayRecord(layer, sessionId, userId) : undefined;
  const draft = {
    name,
    userId,
    trustLevel: context.trustLevel ?? 'sandboxed',
    permissions: context.permissions,
    ...(context.agentId === undefined ? {} : { agentId: context.agentId }),
    ...(context.workspaceId === undefined ? {} : { workspaceId: context.workspaceId }),
  };
  return {
    session: known ?? shared ?? (await layer.namedSessions.findOrCreate(draft, true)),
    isCounted: shared === undefined,
    isRenewable: shared === undefined,
    principal: undefined,
    credential: '',
    workspaces: [],
    // The bounds are those of this call, not those that were stored with the first one.
    createContext: (members) =>
      freezeContext<NamingContext>({ ...context, correlationId: context.correlationId ?? randomUUID() }, members),
  };
}

/** Finds Ambit's own record, if this server was given the same store. A store in memory is never shared. */
async function findGatewayRecord(
  { sessions, store }: SessionLayer,
  id: string,
  userId: string,
): Promise<Session | undefined> {
  if (store.capabilities.shared === 'process') return undefined;
  const session = sessions.get(id) ?? (await sessions.load(id));
  if (session !== undefined) return session.userId === userId ? session : undefined;
  const remains = await store.remains(id);
  if (remains?.record.userId === userId) throw sessionGoneError(remains.reason);
  return undefined;
}

/** The id that callers and listeners know: Ambit's id if the session is Ambit's. */
export function toPublicId({ id, name }: Pick<Session, 'id' | 'name'>): string {
  return name?.startsWith(gatewayPrefix) ? name.slice(gatewayPrefix.length) : id;
}

export function isGatewaySession({ name }: Pick<Session, 'name'>): boolean {
  return name?.startsWith(gatewayPrefix) ?? false;
}
