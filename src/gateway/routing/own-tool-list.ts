import type { Session } from '../../sessions/session.ts';
import type { Toolset } from '../../sessions/tools/toolset.ts';
import type { ToolAccess } from '../../upstreams/access/tool-access.ts';

/** The name of the server of Ambit's own tools. No other server can have it. */
export const ownServer = 'ambit';

/** Ambit's own tools in the list of all servers. */
export interface OwnToolList {
  has(name: string): boolean;
  /** Returns the definitions, as JSON texts, of the tools that this session could call. */
  texts(session: Session): readonly string[];
}

export function createOwnToolList(tools: Toolset, bounds: ToolAccess): OwnToolList {
  let listed: readonly { readonly name: string; readonly text: string }[] | undefined;
  return {
    has: tools.has,
    texts(session) {
      const shown = bounds.visibleToolFilter(session, ownServer) ?? (() => true);
      listed ??= tools.list().map((definition) => ({ name: definition.name, text: JSON.stringify(definition) }));
      return listed.filter(({ name }) => shown(name)).map(({ text }) => text);
    },
  };
}
