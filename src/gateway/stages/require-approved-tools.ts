import { AmbitError } from '../../errors.ts';
import type { Reply } from '../../protocol/channel.ts';
import { placeOf } from '../../sessions/session-views.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import { toolOf } from '../../upstreams/access/tool-bounds.ts';
import type { Catalog, Listed } from '../../upstreams/catalog/catalog.ts';
import type { Offer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { capabilitiesKey } from '../../upstreams/links/handshake.ts';
import type { Approvals } from '../../upstreams/pins/approvals.ts';
import { assertApproved } from '../../upstreams/pins/assert-approved.ts';
import type { Prepared } from '../exchange.ts';
import { listReply } from '../routing/lists.ts';
import type { ServerCallers } from '../routing/server-callers.ts';
import type { AroundStage } from '../stage.ts';

/** Lets a session call only the approved tools of a server that needs an approval. To the session, only they exist. */
export function requireApprovedTools(
  approvals: Approvals,
  catalog: Catalog,
  resolution: Resolution,
  serverCallers: ServerCallers,
): AroundStage<Prepared, unknown, Reply> {
  async function look(exchange: Prepared, upstream: ServerDefinition): Promise<Listed & { readonly offer: Offer }> {
    const { session, caller, message } = exchange;
    const listed = await catalog.look(upstream, {
      capabilities: capabilitiesKey(caller?.initialize ?? message),
      owner: resolution.listOwner(session, upstream),
      place: placeOf(session),
      ask: serverCallers.ask(exchange, upstream),
    });
    const { offer } = listed;
    if (offer === undefined) throw listed.failure ?? new AmbitError('UPSTREAM_FAILED');
    return { ...listed, offer };
  }

  return {
    name: 'requireApprovedTools',
    refuses: ['SERVER_NOT_APPROVED', 'UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT'],
    isNeeded: ({ upstream }) => upstream !== undefined && upstream.source !== 'operator',
    recheck: ({ server }) => assertApproved(approvals, server),
    async around(exchange, next) {
      const { outgoing, upstream } = exchange;
      const { kind, method } = outgoing;
      const isConcerned = kind === 'request' && (method === 'tools/list' || method === 'tools/call');
      if (!isConcerned || upstream === undefined || upstream.kind === 'in-process') return next(exchange);
      const listed = await look(exchange, upstream);
      if (method === 'tools/list') return listReply(exchange, 'tools', { texts: listed.offer.tools, unavailable: [] });
      assertToolApproved(listed, toolOf(outgoing));
      return next(exchange);
    },
  };
}

/** Only a tool that the server lists, and that was approved as it is listed, can be called. */
function assertToolApproved({ server, offer, withheld }: Listed, tool: string | undefined): void {
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
