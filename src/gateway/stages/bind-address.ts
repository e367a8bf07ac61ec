import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionMarks } from '../../stores/state.ts';
import type { InSession } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

const mark = 'address';

/**
 * Binds a session to the address that used it first, in every process on this store, where the operator wants it. Only a
 * hash of the address is kept.
 */
export function bindAddress(isBound: boolean, marks: SessionMarks): BeforeStage<InSession, void> {
  /** As each copy of a session was found; another copy is asked for again. */
  const known = new WeakMap<Session, string>();

  async function bind(session: Session, digest: string): Promise<string> {
    const put = await marks.put(session.id, mark, digest);
    // Where it can no longer be written down nobody is let in; where it is gone, the next stages say why.
    if (put.outcome === 'full') throw foreignAddress();
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
      // The parent process owns both ends of a pipe, and looking through a session is not a use of it.
      if (!isBound || credential.kind === 'pipe' || ('looksAs' in exchange && exchange.looksAs !== undefined)) return;
      const digest = digestOf(session.id, credential.address ?? '');
      const first = known.get(session);
      if (first === digest) return;
      if (first !== undefined) throw foreignAddress();
      return bind(session, digest).then((bound) => {
        if (bound !== digest) throw foreignAddress();
      });
    },
  };
}

/** The same address, written in two ways, is one. */
function digestOf(sessionId: string, address: string): string {
  const plain = address
    .toLowerCase()
    .replace(/^::ffff:(?=\d+\.)/, '')
    .replace(/%.*$/s, '');
  return createHash('sha256').update(`${sessionId} ${plain}`).digest('hex');
}

function foreignAddress(): AmbitError {
  return new AmbitError('UNAUTHENTICATED', {
    what: 'This session is bound to the address that used it first, and this is another one.',
    hint: 'Call from where the session was first used, or ask the orchestrator for a session of your own.',
    rule: 'sessions.bindAddress',
  });
}
