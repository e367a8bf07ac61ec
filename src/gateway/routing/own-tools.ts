import type { Session } from '../../sessions/session.ts';
import type { Toolset } from '../../sessions/tools/toolset.ts';
import type { ToolBounds } from '../../upstreams/access/tool-bounds.ts';

/** The name of the server of Ambit's own tools. No other server can have it. */
export const ownServer = 'ambit';

/** Ambit's own tools, as they are listed among those of all servers. */
export interface OwnToolList {
  has(name: string): boolean;
  /** The definitions, as `tools/list` has them, of the tools that this session could be allowed to call. */
  texts(session: Session): readonly string[];
}

export function createOwnToolList(tools: Toolset, bounds: ToolBounds): OwnToolList {
  let listed: readonly { readonly name: string; readonly text: string }[] | undefined;
  return {
    has: tools.has,
    texts(session) {
      const shown = bounds.shown(session, ownServer) ?? (() => true);
      listed ??= tools.list().map((definition) => ({ name: definition.name, text: JSON.stringify(definition) }));
      return listed.filter(({ name }) => shown(name)).map(({ text }) => text);
    },
  };
}
