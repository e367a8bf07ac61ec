import { createHash } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkPermissions } from '../../sessions/check-permissions.ts';
import { isGivenId } from '../../sessions/given-id.ts';
import { goneBecause } from '../../sessions/gone-because.ts';
import type { Session } from '../../sessions/session.ts';
import type { CheckedDraft } from '../../sessions/sessions.ts';
import { isObject } from '../sdk/call.ts';
import type { Visit } from '../sdk/wrap-handlers.ts';
import { isKeptForAmbit } from './gateway-sessions.ts';
import type { AuthInfo, CallerPrincipal } from './options.ts';
import { type Entrance, type House, ownContext } from './resolved-session.ts';

const useSessionKey = 'ambit/use-session';

/**
 * Without Ambit, over HTTP: the credential says who calls. In the handshake era the transport session is the session;
 * without one, it is the session of that user which the request names, else the user's one standing session.
 */
export async function aloneOverHttp(house: House, visit: Visit): Promise<Entrance> {
  const caller = await principalOf(house, visit.extra);
  if ('sessionToken' in caller) {
    const session = await house.sessions.prove(String(caller.sessionToken));
    return { session, counted: true, renews: false, reach: 'session', context: ownContext };
  }
  const { userId, agentId, workspaceId } = caller;
  const trustLevel: TrustLevel = caller.trustLevel === 'direct' ? 'direct' : 'sandboxed';
  const draft: CheckedDraft = {
    userId,
    trustLevel,
    permissions: checkPermissions(caller.permissions ?? []),
    ...(agentId === undefined ? {} : { agentId }),
    ...(workspaceId === undefined ? {} : { workspaceId }),
  };
  const ceiling = { trustLevel, permissions: draft.permissions ?? [] };
  const { meta } = visit.call;
  const transportId = visit.extra['sessionId'];
  const asked = isObject(meta) && Object.hasOwn(meta, useSessionKey) ? meta[useSessionKey] : undefined;
  const session =
    typeof transportId === 'string'
      ? await ofTransport(house, draft, transportId)
      : asked !== undefined
        ? await ofUser(house, userId, asked)
        : await house.named.of({ ...draft, name: 'user:default' });
  return {
    session,
    counted: true,
    reach: 'session',
    renews: typeof transportId !== 'string' && asked === undefined,
    context: (record, state) => ownContext(record, state, ceiling),
  };
}

async function principalOf({ principal }: House, extra: Visit['extra']): Promise<CallerPrincipal> {
  if (principal === undefined) {
    throw new AmbitError('UNAUTHENTICATED', {
      what: 'This server cannot tell who calls it.',
      hint: 'Its author gives createServerSessions() the option "principal", or Ambit stands in front of it.',
    });
  }
  const http = isObject(extra['http']) ? extra['http'] : extra;
  const hint = 'Send a credential that this server accepts.';
  let caller: CallerPrincipal | undefined;
  try {
    caller = await principal(http['authInfo'] as AuthInfo | undefined);
  } catch (cause) {
    throw new AmbitError('UNAUTHENTICATED', { hint, cause });
  }
  if (isObject(caller) && ('sessionToken' in caller || typeof caller.userId === 'string')) return caller;
  throw new AmbitError('UNAUTHENTICATED', { hint });
}

/** A transport session gives its session its id, and belongs to whoever used it first. */
async function ofTransport(house: House, draft: CheckedDraft, transportId: string): Promise<Session> {
  const { sessions, store } = house;
  const id = createHash('sha256').update(`transport ${transportId}`).digest('hex').slice(0, 32);
  for (;;) {
    const session = sessions.get(id) ?? (await sessions.load(id));
    if (session !== undefined) return owned(session, draft.userId);
    const remains = await store.remains(id);
    if (remains !== undefined) {
      throw remains.record.userId === draft.userId ? goneBecause(remains.reason) : unknownSession();
    }
    try {
      return (await sessions.create({ ...draft, id })).session;
    } catch (error) {
      if (!isAmbitError(error) || error.code !== 'SESSION_EXISTS') throw error;
    }
  }
}

async function ofUser({ sessions, store }: House, userId: string, asked: unknown): Promise<Session> {
  if (typeof asked !== 'string' || !isGivenId(asked)) throw unknownSession();
  const session = sessions.get(asked) ?? (await sessions.load(asked));
  if (session !== undefined && !isKeptForAmbit(session)) return owned(session, userId);
  const remains = await store.remains(asked);
  throw remains?.record.userId === userId ? goneBecause(remains.reason) : unknownSession();
}

/** Somebody else's is as unknown as one that never was. */
function owned(session: Session, userId: string): Session {
  if (session.userId === userId) return session;
  throw unknownSession();
}

function unknownSession(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', { hint: 'Name one that was opened for you, or none.' });
}
