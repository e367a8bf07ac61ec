import { AmbitError } from '../errors.ts';
import { placeOf } from '../sessions/in-workspace.ts';
import type { Session } from '../sessions/session.ts';
import type { Link } from '../upstreams/link.ts';

/** The link of a handshake-era client whom Ambit answers by itself: nobody is behind it. */
export function quietLink(session: Session, server: string): Link {
  let closed = false;
  return {
    sessionId: session.id,
    place: placeOf(session),
    server,
    era: 'handshake',
    attached: () => 0,
    isBusy: () => false,
    isClosed: () => closed,
    async request() {
      throw new AmbitError('INTERNAL');
    },
    notify() {},
    answer() {},
    cancel() {},
    attach() {},
    detach() {
      closed = true;
    },
    listen() {},
    leave() {},
    tend() {},
    async close() {
      closed = true;
    },
  };
}
