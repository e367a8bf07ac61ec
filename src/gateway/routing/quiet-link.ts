import { AmbitError } from '../../errors.ts';
import type { Link } from '../../upstreams/links/link.ts';

/** A link that does nothing: no server is behind it. Links of which Ambit answers something itself are made from it. */
export function quietLink(of: Pick<Link, 'sessionId' | 'place' | 'server' | 'era'>): Link {
  let closed = false;
  return {
    ...of,
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
