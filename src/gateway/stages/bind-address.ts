import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionMarks } from '../../stores/state.ts';
import type { SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

const markName = 'address';

/**
 * Binds a session to the address that used it first, in every process on this store, where the operator wants it. Only a
 * hash of the address is kept.
 */
export function bindAddress(isBound: boolean, marks: SessionMarks): BeforeStage<SessionExchange, void> {
  /** The address of each session copy. Another copy is looked up again. */
  const known = new WeakMap<Session, string>();

  async function bindSession(session: Session, digest: string): Promise<string> {
    const put = await marks.put(session.id, markName, digest);
    // If the address cannot be stored, the request is refused. If the session is gone, a later stage reports it.
    if (put.outcome === 'full') throw foreignAddressError();
    const first = put.outcome === 'present' ? put.value : digest;
    known.set(session, first);
    return first;
  }

  return {
    name: 'bindAddress',
    refuses: ['UNAUTHENTICATED', 'STORE_UNAVAILABLE'],
    isNeeded: () => isBound,
    before(exchange) {
      const { credential, session } = exchange;
      // The parent process owns both ends of a pipe, and making lists does not count as use.
      if (
        !isBound ||
        credential.kind === 'pipe' ||
        ('listAsSession' in exchange && exchange.listAsSession !== undefined)
      )
        return;
      const digest = digestAddress(session.id, credential.address ?? '');
      const first = known.get(session);
      if (first === digest) return;
      if (first !== undefined) throw foreignAddressError();
      return bindSession(session, digest).then((bound) => {
        if (bound !== digest) throw foreignAddressError();
      });
    },
  };
}

/** Returns one digest for all spellings of an address. */
function digestAddress(sessionId: string, address: string): string {
  const plain = address
    .toLowerCase()
    .replace(/^::ffff:(?=\d+\.)/, '')
    .replace(/%.*$/s, '');
  return createHash('sha256').update(`${sessionId} ${plain}`).digest('hex');
}

function foreignAddressError(): AmbitError {
  return new AmbitError('UNAUTHENTICATED', {
    what: 'This session is bound to the network address that used it first. This request comes from another address.',
    hint: 'Call from the address that used the session first, or ask the orchestrator for another session.',
    rule: 'sessions.bindAddress',
  });
}
