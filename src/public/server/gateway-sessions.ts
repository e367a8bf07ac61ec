import { randomUUID } from 'node:crypto';
import { goneBecause } from '../../sessions/gone-because.ts';
import type { Session } from '../../sessions/session.ts';
import { frozen, type InheritedContext, type VerifiedContext } from '../sdk/context.ts';
import type { Entrance, House } from './resolved-session.ts';

const prefix = 'ambit:';

/** A context that names its session: signed, or in the environment that Ambit started this process with. */
export type NamingContext = VerifiedContext | (InheritedContext & { readonly sessionId: string });

/**
 * Behind Ambit the session is Ambit's, and so are its life and its bounds. What is kept here is a place for what this
 * server remembers about it: Ambit's own record where both use one store, else a record under the session's name.
 */
export async function behindAmbit(house: House, context: NamingContext): Promise<Entrance> {
  const { sessionId, userId = house.settings.local.userId } = context;
  const name = `${prefix}${sessionId}` as const;
  const kept = house.named.known(userId, name);
  const ambits = kept === undefined ? await ambitsOwn(house, sessionId, userId) : undefined;
  const draft = {
    name,
    userId,
    trustLevel: context.trustLevel ?? 'sandboxed',
    permissions: context.permissions,
    ...(context.agentId === undefined ? {} : { agentId: context.agentId }),
    ...(context.workspaceId === undefined ? {} : { workspaceId: context.workspaceId }),
  };
  return {
    session: kept ?? ambits ?? (await house.named.of(draft, true)),
    counted: ambits === undefined,
    renews: ambits === undefined,
    reach: undefined,
    // What this very call says of its bounds, not what was written down at the first one.
    context: (_, state) =>
      frozen<NamingContext>({ ...context, correlationId: context.correlationId ?? randomUUID() }, state),
  };
}

/** Ambit's record, where this server was given the same store. What lies in memory is this server's alone. */
async function ambitsOwn({ sessions, store }: House, id: string, userId: string): Promise<Session | undefined> {
  if (store.capabilities.shared === 'process') return undefined;
  const session = sessions.get(id) ?? (await sessions.load(id));
  if (session !== undefined) return session.userId === userId ? session : undefined;
  const remains = await store.remains(id);
  if (remains?.record.userId === userId) throw goneBecause(remains.reason);
  return undefined;
}

/** The id that the outside knows: Ambit's, where the session is Ambit's. */
export function knownId({ id, name }: Pick<Session, 'id' | 'name'>): string {
  return name?.startsWith(prefix) ? name.slice(prefix.length) : id;
}

export function isKeptForAmbit({ name }: Pick<Session, 'name'>): boolean {
  return name?.startsWith(prefix) ?? false;
}
