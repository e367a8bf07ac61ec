import { AmbitError } from '../../errors.ts';
import { placeOf } from '../../sessions/in-workspace.ts';
import { askUpstream } from '../../upstreams/bridge/ask-upstream.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { AskServer } from '../../upstreams/catalog/offer.ts';
import { capabilitiesKey } from '../../upstreams/handshake.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Reply } from '../../wire/channel.ts';
import { memberOf, stringAt } from '../../wire/scan.ts';
import { askAsModern } from '../aggregate/ask-as.ts';
import { listReply } from '../aggregate/lists.ts';
import type { Stage } from '../chain.ts';
import type { Prepared } from '../exchange.ts';
import type { Resolution } from '../resolution.ts';

/** Last before `forward`: of a server that had to be approved, only the tools that were approved exist. */
export function vetTools(catalog: Catalog, links: Links, resolution: Resolution): Stage<Prepared, Prepared, Reply> {
  return function vetTools(exchange, next) {
    const { message, upstream } = exchange;
    const concerned =
      message.kind === 'request' && (message.method === 'tools/list' || message.method === 'tools/call');
    return upstream.source === 'operator' || !concerned ? next(exchange) : vetted(exchange, next);
  };

  async function vetted(exchange: Prepared, next: (exchange: Prepared) => Promise<Reply>): Promise<Reply> {
    const { message, upstream, session, caller } = exchange;
    const { offer, withheld, failure } = await catalog.look(
      upstream,
      capabilitiesKey(caller?.initialize ?? message) + resolution.personal(session, upstream),
      askFor(exchange, links),
      placeOf(session),
    );
    if (offer === undefined) throw failure ?? new AmbitError('UPSTREAM_FAILED');
    if (message.method === 'tools/list') return listReply(exchange, 'tools', { texts: offer.tools, unavailable: [] });
    refuseWithheld(upstream.name, stringAt(message.bytes, memberOf(message.params?.shape, 'name')), withheld);
    return next(exchange);
  }
}

/** Asks the server of a call by ourselves, as its client would. */
export function askFor({ message, upstream, session, caller }: Prepared, links: Links): AskServer {
  if (caller === undefined) return askAsModern(links, session, upstream, message);
  return (method, params) => askUpstream(caller.link, method, params, caller);
}

export function refuseWithheld(server: string, tool: string | undefined, withheld: readonly string[]): void {
  if (tool === undefined || !withheld.includes(tool)) return;
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what: `The tool "${tool}" of the server "${server}" is not what was approved.`,
    hint: `The operator can look at it and approve it with "ambit server approve ${server}".`,
    rule: 'approval',
  });
}
