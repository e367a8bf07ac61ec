import { AmbitError } from '../../errors.ts';
import type { Link } from './link.ts';

/** Stands for the link of a client that is known from before, until its first request makes a real one. */
export function absentLink(sessionId: string, place: string, server: string): Link {
  return {
    sessionId,
    place,
    server,
    era: 'handshake',
    async request() {
      throw new AmbitError('UPSTREAM_FAILED');
    },
    notify() {},
    answer() {},
    cancel() {},
    attached: () => 0,
    attach() {},
    detach() {},
    listen() {},
    leave() {},
    tend() {},
    async close() {},
    // So that whoever looks makes another.
    isClosed: () => true,
    isBusy: () => false,
  };
}
