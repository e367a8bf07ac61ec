import { AmbitError } from '../../errors.ts';
import { placeOf } from '../../sessions/in-workspace.ts';
import { askUpstream } from '../../upstreams/bridge/ask-upstream.ts';
import type { Catalog, Listed } from '../../upstreams/catalog/catalog.ts';
import type { AskServer, Offer } from '../../upstreams/catalog/offer.ts';
import { capabilitiesKey } from '../../upstreams/handshake.ts';
import type { Links } from '../../upstreams/links.ts';
import type { Reply } from '../../wire/channel.ts';
import { askAsModern } from '../aggregate/ask-as.ts';
import { listReply } from '../aggregate/lists.ts';
import type { Stage } from '../chain.ts';
import type { Prepared } from '../exchange.ts';
import type { Resolution } from '../resolution.ts';
import { toolOf } from '../tool-bounds.ts';

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
    const listed = await catalog.look(upstream, {
      capabilities: capabilitiesKey(caller?.initialize ?? message),
      owner: resolution.listOwner(session, upstream),
      place: placeOf(session),
      ask: askFor(exchange, links),
    });
    const { offer } = listed;
    if (offer === undefined) throw listed.failure ?? new AmbitError('UPSTREAM_FAILED');
    if (message.method === 'tools/list') return listReply(exchange, 'tools', { texts: offer.tools, unavailable: [] });
    assertToolApproved(listed, toolOf(message));
    return next(exchange);
  }
}

/** Asks the server of a call by ourselves, as its client would. */
export function askFor({ message, upstream, session, caller }: Prepared, links: Links): AskServer {
  if (caller === undefined) return askAsModern(links, session, upstream, message);
  return (method, params) => askUpstream(caller.link, method, params, caller);
}

/** Only a tool that the server lists, and that was approved as it is listed, can be called. */
export function assertToolApproved({ server, offer, withheld }: Listed, tool: string | undefined): void {
  if (tool !== undefined && offer !== undefined && toolNames(offer).has(tool)) return;
  const changed = tool !== undefined && withheld.includes(tool);
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what: changed
      ? `The tool "${tool}" of the server "${server.name}" is not what was approved.`
      : `The server "${server.name}" lists no approved tool "${(tool ?? '').slice(0, 100)}".`,
    hint: changed
      ? `The operator can look at it and approve it with "ambit server approve ${server.name}".`
      : 'Use a name from tools/list.',
    rule: 'approval',
  });
}

const namesByOffer = new WeakMap<Offer, ReadonlySet<unknown>>();

function toolNames(offer: Offer): ReadonlySet<unknown> {
  const known = namesByOffer.get(offer);
  if (known !== undefined) return known;
  const names = new Set(offer.tools.map((text) => (JSON.parse(text) as { readonly name?: unknown } | null)?.name));
  namesByOffer.set(offer, names);
  return names;
}
