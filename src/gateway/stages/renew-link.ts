import { AmbitError } from '../../errors.ts';
import type { Caller } from '../../upstreams/caller.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Reply } from '../../wire/channel.ts';
import { readMessage } from '../../wire/message.ts';
import type { Stage } from '../chain.ts';
import type { Prepared } from '../exchange.ts';
import { callOf } from './forward.ts';

/**
 * Before a handshake-era request goes on: when the server was described anew since its client shook hands, or the client
 * is known only from before a restart, it is introduced to what there is now, with its own words.
 */
export function renewLink(links: Links): Stage<Prepared, Prepared, Reply> {
  const renewing = new WeakMap<Caller, Promise<void>>();

  async function renew(exchange: Prepared, caller: Caller): Promise<void> {
    const again = { ...callOf(exchange), message: caller.initialize, edits: [] };
    const { link, version } = await links.handshake(exchange.session, exchange.upstream, again);
    if (version === undefined) throw new AmbitError('UPSTREAM_FAILED');
    // The old link is left to finish what is under way.
    caller.link = link;
    link.attach(caller);
    const initialized = readMessage(Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    link.notify({ ...again, message: initialized });
    if (caller.stream !== undefined) link.listen(caller);
  }

  return function renewLink(exchange, next) {
    const { caller, message } = exchange;
    if (caller === undefined || message.kind !== 'request' || !links.isRetired(caller.link, caller.sessionId)) {
      return next(exchange);
    }
    // However many calls notice it, a client is introduced once.
    const running = renewing.get(caller) ?? renew(exchange, caller).finally(() => renewing.delete(caller));
    renewing.set(caller, running);
    return running.then(() => next(exchange));
  };
}
