import { AmbitError } from '../../errors.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { sessionScopeKey } from '../../sessions/narrowed-sessions.ts';
import type { ServerResolution } from '../../upstreams/access/resolution.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import type { Catalog, ServerListing } from '../../upstreams/catalog/catalog.ts';
import type { Offer } from '../../upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { capabilitiesKey } from '../../upstreams/links/handshake.ts';
import { noReplyError } from '../../upstreams/links/upstream-errors.ts';
import { type Approvals, assertApproved } from '../../upstreams/pins/approvals.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { CreateListReply } from '../routing/collect-lists.ts';
import type { ServerCallers } from '../routing/server-callers.ts';
import type { AroundStage } from '../stage.ts';

/** Lets a session see and call only the approved tools of a server that needs an approval. */
export function requireApprovedTools(
  approvals: Approvals,
  catalog: Catalog,
  resolution: ServerResolution,
  serverCallers: ServerCallers,
  createListReply: CreateListReply,
): AroundStage<PreparedExchange, unknown, FinalReply> {
  async function fetchOffer(
    exchange: PreparedExchange,
    upstream: ServerDefinition,
  ): Promise<ServerListing & { readonly offer: Offer }> {
    const { session, caller, message, era } = exchange;
    const listed = await catalog.list(upstream, {
      era,
      capabilities: capabilitiesKey(caller?.initialize ?? message),
      owner: resolution.listOwnerFor(session, upstream),
      scopeKey: sessionScopeKey(session),
      ask: serverCallers.ask(exchange, upstream),
      askAs: serverCallers.askAs(exchange, upstream),
    });
    const { offer } = listed;
    if (offer === undefined) throw listed.failure ?? noReplyError(upstream.name, 'tools/list');
    return { ...listed, offer };
  }

  return {
    name: 'requireApprovedTools',
    refuses: ['SERVER_NOT_APPROVED', 'UPSTREAM_FAILED', 'UPSTREAM_TIMEOUT', -32602],
    isNeeded: ({ upstream }) => upstream !== undefined && upstream.source !== 'operator',
    recheck: ({ server }) => assertApproved(approvals, server),
    async around(exchange, next) {
      const { outgoing, upstream } = exchange;
      const { kind, method } = outgoing;
      const isConcerned = kind === 'request' && (method === 'tools/list' || method === 'tools/call');
      if (!isConcerned || upstream === undefined || upstream.kind === 'in-process') return next(exchange);
      const listed = await fetchOffer(exchange, upstream);
      if (method === 'tools/list')
        return createListReply(exchange, 'tools', { texts: listed.offer.tools, unavailable: [] });
      assertToolApproved(listed, readToolName(outgoing));
      return next(exchange);
    },
  };
}

/** Throws unless the server lists the tool and it was approved as it is listed. */
function assertToolApproved({ server, offer, withheld }: ServerListing, tool: string | undefined): void {
  if (tool !== undefined && offer !== undefined && readToolNames(offer).has(tool)) return;
  const changed = tool !== undefined && withheld.includes(tool);
  throw new AmbitError('SERVER_NOT_APPROVED', {
    what: changed
      ? `The tool "${tool}" of the server "${server.name}" has changed since it was approved.`
      : `The server "${server.name}" lists no approved tool "${(tool ?? '').slice(0, 100)}".`,
    hint: changed
      ? `The operator can review and approve it with "ambit server approve ${server.name}".`
      : 'Use a name from tools/list.',
    rule: 'approval',
  });
}

const namesByOffer = new WeakMap<Offer, ReadonlySet<unknown>>();

function readToolNames(offer: Offer): ReadonlySet<unknown> {
  const known = namesByOffer.get(offer);
  if (known !== undefined) return known;
  const names = new Set(offer.tools.map((text) => (JSON.parse(text) as { readonly name?: unknown } | null)?.name));
  namesByOffer.set(offer, names);
  return names;
}
