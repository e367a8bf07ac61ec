import type { Reply } from '../../protocol/channel.ts';
import { type ToolBounds, toolOf } from '../../upstreams/access/tool-access.ts';
import type { Prepared } from '../exchange.ts';
import { withToolsShown } from '../lists/shown-tools.ts';
import type { ToolListeners } from '../lists/tool-listeners.ts';
import type { AroundStage } from '../stage.ts';

/**
 * Decides whether this session may call the tool: by the lists, the permissions and the rules of the operator. In lists
 * of tools, it leaves out the tools that the session could never call.
 */
export function enforceToolRules(tools: ToolBounds, listeners: ToolListeners): AroundStage<Prepared, unknown, Reply> {
  return {
    name: 'enforceToolRules',
    refuses: ['PERMISSION_DENIED'],
    isNeeded: ({ upstream, isToolCall }) =>
      upstream !== undefined && (!isToolCall || tools.of(upstream.name) !== undefined),
    recheck({ session, server, message }) {
      if (message.method === 'tools/call') tools.admit(session, server.name, toolOf(message), message);
    },
    async around(exchange, next) {
      const { upstream, session, outgoing, entry } = exchange;
      if (upstream === undefined) return next(exchange);
      const { name } = upstream;
      if (outgoing.method === 'subscriptions/listen') return listeners.follow(exchange, name, next);
      if (outgoing.method === 'tools/call') entry.rule = tools.admit(session, name, toolOf(outgoing), outgoing);
      const reply = await next(exchange);
      if (outgoing.method !== 'tools/list' || reply.kind !== 'message') return reply;
      const view = { shown: tools.shown(session, name), replaced: tools.replaced(name) };
      if ((view.shown ?? view.replaced) === undefined) return reply;
      return { ...reply, bytes: withToolsShown(reply.bytes, view) };
    },
  };
}
