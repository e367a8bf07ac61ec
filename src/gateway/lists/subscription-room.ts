import { AmbitError } from '../../errors.ts';
import { longestUri, mostSubscriptions } from '../../protocol/param-checks.ts';
import type { Caller } from '../../upstreams/links/caller.ts';

/** Throws when a handshake-era client cannot subscribe to one more resource. */
export function assertRoomFor(caller: Caller, uri: string): void {
  const known = caller.subscriptions.has(uri);
  if (uri.length <= longestUri && (known || caller.subscriptions.size < mostSubscriptions)) return;
  throw new AmbitError('OVERLOADED', { what: 'A client cannot hold more subscriptions, or longer ones.' });
}
