import { restrictSession } from '../../sessions/restrict.ts';
import type { Operator } from '../operator/operator.ts';
import type { SessionParts } from './open-sessions.ts';
import type { Storage } from './open-storage.ts';

/** The part of an operator that is the same with and without a gateway. */
export type CommonOperator = Omit<Operator, 'sandbox' | 'openAuth' | 'openAccess'>;

export function createOperator(storage: Storage, parts: SessionParts): CommonOperator {
  const { settings, places, log, journal, store } = storage;
  const { sessions, people, policies, folders } = parts;
  return {
    log,
    sessions,
    people,
    policies,
    folders,
    calls: journal.calls,
    places,
    openSession: (draft) => parts.open(draft),
    restrictSession: (id, change) => restrictSession(sessions, settings.config(), id, change),
    async furtherToken(id) {
      const token = await sessions.furtherToken(id);
      journal.record({ kind: 'session', event: 'token-made', sessionId: id });
      return token;
    },
    usage: (id) => store.usage(id),
  };
}
