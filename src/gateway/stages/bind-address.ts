import { createHash } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionMarks } from '../../stores/state.ts';
import type { Stage } from '../chain.ts';
import type { Approach, InSession } from '../exchange.ts';

const mark = 'address';

/**
 * After `resolve-session`, where the operator wants it: a session belongs to the address that used it first, in every
 * process on this store. Only a hash of the address is kept.
 */
export function bindAddress<E extends InSession<Approach>, Out>(
  isBound: boolean,
  marks: SessionMarks,
): Stage<E, E, Out> {
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

  return function bindAddress(exchange, next) {
    const { credential, session } = exchange;
    // Whoever started us owns both ends of a pipe; and to look is no use.
    if (!isBound || credential.kind === 'pipe' || ('looksAs' in exchange && exchange.looksAs !== undefined))
      return next(exchange);
    const digest = digestOf(session.id, credential.address ?? '');
    const first = known.get(session);
    if (first === digest) return next(exchange);
    if (first !== undefined) throw foreignAddress();
    return bind(session, digest).then((bound) => {
      if (bound !== digest) throw foreignAddress();
      return next(exchange);
    });
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
