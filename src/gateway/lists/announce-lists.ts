import { inWorkspace, placeOf } from '../../sessions/session-views.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Resolution } from '../../upstreams/access/resolution.ts';
import type { Catalog } from '../../upstreams/catalog/catalog.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import type { Links } from '../../upstreams/links/links.ts';
import type { Sent } from '../../upstreams/links/sent.ts';
import { announceChange } from './announce.ts';

export interface ListNews {
  readonly catalog: Catalog;
  readonly callers: Callers;
  readonly sessions: Pick<Sessions, 'get'>;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  readonly resolution: Resolution;
}

/** Tells the clients whose lists Ambit found to have changed. A server tells of a change by itself. */
export function announceLists({ catalog, callers, sessions, servers, resolution }: ListNews): void {
  catalog.onChange(({ server: name, byOurselves, concerns }) => {
    if (!byOurselves) return;
    announceChange(callers, [name], (caller) => {
      const held = sessions.get(caller.sessionId);
      const server = servers().get(name);
      if (held === undefined || server === undefined) return server === undefined;
      const session = caller.workspaceId === undefined ? held : inWorkspace(held, caller.workspaceId);
      return concerns(resolution.listOwner(session, server), placeOf(session));
    });
  });
}

/** Notes for whom the lists of a server have changed, when the server says so. */
export function noteListChange(sent: Sent, links: Links, { catalog, resolution }: ListNews): void {
  if (!/^notifications\/\w+\/list_changed$/.test(sent.message.method)) return;
  const { upstream, link } = sent;
  const ownersOf = () => new Set(links.usersOf(link).map((user) => resolution.listOwner(user, upstream).key));
  catalog.changed(upstream.name, link.place === undefined ? { owners: ownersOf() } : { place: link.place });
}
