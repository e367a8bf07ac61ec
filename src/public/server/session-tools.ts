import type { Session } from '../../sessions/session.ts';
import type { ContextOf } from '../../sessions/tools/session-context.ts';
import type { ToolResult } from '../../sessions/tools/toolset.ts';
import { createSessionTools } from '../../workspaces/tools/session-tools.ts';
import { isObject } from '../sdk/call.ts';
import type { Entrance, House } from './resolved-session.ts';

/** `session_info` and its companions beside the tools of the server itself. */
export interface OwnTools {
  has(name: string | undefined): name is string;
  call(name: string, args: unknown, session: Session, reach: Entrance['reach']): Promise<ToolResult>;
  /** What `tools/list` answered, with ours at the end of its last page. */
  listed(result: unknown): unknown;
}

export function ownTools({ sessions, store }: Pick<House, 'sessions' | 'store'>, contextOf?: ContextOf): OwnTools {
  const tools = createSessionTools({ sessions, store, contextOf });
  return {
    has: (name): name is string => name !== undefined && tools.has(name),
    call: (name, args, session, reach) => {
      const { id, userId } = session;
      const principal =
        reach === 'user' ? ({ kind: 'local', userId } as const) : ({ kind: 'session', sessionId: id, userId } as const);
      return tools.call(name, args, { session, principal });
    },
    listed(result) {
      if (!isObject(result) || !Array.isArray(result['tools'])) return result;
      const theirs = result['tools'].filter((each) => !(isObject(each) && tools.has(String(each['name']))));
      return { ...result, tools: result['nextCursor'] === undefined ? [...theirs, ...tools.list()] : theirs };
    },
  };
}
