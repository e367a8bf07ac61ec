import type { Session } from '../../sessions/session.ts';
import type { ToolResult } from '../../sessions/tools/toolset.ts';
import { createOwnTools } from '../../workspaces/tools/create-own-tools.ts';
import { isObject } from '../sdk/call.ts';
import type { ResolvedSession } from './resolved-session.ts';

/** The session tools (`session_info` and others) beside the tools of the server itself. */
export interface ServerSessionTools {
  has(name: string | undefined): name is string;
  call(name: string, args: unknown, session: Session, toolScope: ResolvedSession['toolScope']): Promise<ToolResult>;
  /** Adds the session tools to the last page of a `tools/list` result. */
  addToList(result: unknown): unknown;
}

export function createServerSessionTools(parts: Parameters<typeof createOwnTools>[0]): ServerSessionTools {
  const tools = createOwnTools(parts);
  return {
    has: (name): name is string => name !== undefined && tools.has(name),
    call: (name, args, session, toolScope) => {
      const { id, userId } = session;
      if (toolScope === 'user') return tools.call(name, args, { session, principal: { kind: 'local', userId } });
      return tools.call(name, args, { session, principal: { kind: 'session', sessionId: id, userId } });
    },
    addToList(result) {
      if (!isObject(result) || !Array.isArray(result['tools'])) return result;
      const theirs = result['tools'].filter((each) => !(isObject(each) && tools.has(String(each['name']))));
      return { ...result, tools: result['nextCursor'] === undefined ? [...theirs, ...tools.list()] : theirs };
    },
  };
}
