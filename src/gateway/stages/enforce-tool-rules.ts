import type { FinalReply } from '../../protocol/channel.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import {
  findMember,
  type ObjectShape,
  readElements,
  readRawValue,
  readStringValue,
  scanEntry,
} from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import { readToolName, type ToolAccess } from '../../upstreams/access/tool-access.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { ToolListeners } from '../lists/announce-lists.ts';
import type { AroundStage, Next } from '../stage.ts';

/** The changes to a server's tool list for one session. Undefined members change nothing. */
interface ToolView {
  readonly shown: ((tool: string) => boolean) | undefined;
  /** Returns the own tool that should be used instead. */
  readonly replaced: ((tool: string) => string | undefined) | undefined;
}

/**
 * Decides whether this session may call the tool: by the lists, the permissions and the rules of the operator. In lists
 * of tools, it leaves out the tools that the session could never call.
 */
export function enforceToolRules(
  tools: ToolAccess,
  listeners: ToolListeners,
): AroundStage<PreparedExchange, unknown, FinalReply> {
  async function filterList<Here extends PreparedExchange>(
    exchange: Here,
    server: string,
    next: Next<Here, FinalReply>,
  ): Promise<FinalReply> {
    const reply = await next(exchange);
    if (reply.kind !== 'message') return reply;
    const { session } = exchange;
    const view = { shown: tools.visibleToolFilter(session, server), replaced: tools.replacementFinder(server) };
    if ((view.shown ?? view.replaced) === undefined) return reply;
    return { ...reply, bytes: filterToolList(reply.bytes, view) };
  }

  return {
    name: 'enforceToolRules',
    refuses: ['PERMISSION_DENIED'],
    isNeeded: ({ upstream, isToolCall }) =>
      upstream !== undefined && (!isToolCall || tools.policyFor(upstream.name) !== undefined),
    recheck({ session, server, message }) {
      if (message.method === 'tools/call') tools.assertAllowed(session, server.name, readToolName(message), message);
    },
    around(exchange, next) {
      const { upstream, session, outgoing, entry } = exchange;
      if (upstream === undefined) return next(exchange);
      const { name } = upstream;
      if (outgoing.method === 'subscriptions/listen') return listeners.listen(exchange, name, next);
      if (outgoing.method === 'tools/list') return filterList(exchange, name, next);
      if (outgoing.method === 'tools/call') tools.assertAllowed(session, name, readToolName(outgoing), outgoing, entry);
      return next(exchange);
    },
  };
}

/**
 * Removes tools that are not visible from an answer to `tools/list`, and tools without a name, which cannot be called.
 */
function filterToolList(bytes: Buffer, view: ToolView): Buffer {
  const { result } = readMessage(bytes);
  const list = findMember(result?.shape, 'tools');
  if (list === undefined) return bytes;
  const texts = readElements(bytes, list).map((span) => readRawValue(bytes, span));
  const seen = filterTools(view, texts);
  const same = seen.length === texts.length && seen.every((text, index) => text === texts[index]);
  const edits = same ? [] : [replaceValue(list, `[${seen.join(',')}]`)];
  // The list belongs to this session, whatever the server says.
  const scope = findMember(result?.shape, 'cacheScope');
  if (scope !== undefined) edits.push(replaceValue(scope, '"private"'));
  return edits.length === 0 ? bytes : applyEdits(bytes, edits);
}

/** Filters tools, given as JSON texts. A tool that has a better replacement gets a hint in its description. */
export function filterTools({ shown, replaced }: ToolView, texts: readonly string[]): readonly string[] {
  if (shown === undefined && replaced === undefined) return texts;
  return texts.flatMap((text) => {
    const bytes = Buffer.from(text);
    const shape = scanEntry(bytes);
    const name = readStringValue(bytes, findMember(shape, 'name'));
    if (shape === undefined || name === undefined || shown?.(name) === false) return [];
    const better = replaced?.(name);
    return [better === undefined ? text : addAdvice(bytes, shape, better)];
  });
}

/** Puts the advice first, so that a model reads it before it chooses. */
function addAdvice(bytes: Buffer, shape: ObjectShape, better: string): string {
  const advice = `Use ${better} instead: it works in the workspace of the session.`;
  const member = findMember(shape, 'description');
  const said = readStringValue(bytes, member);
  const edit: Edit =
    member === undefined
      ? { start: 1, end: 1, text: `"description":${JSON.stringify(advice)},` }
      : replaceValue(member, JSON.stringify(said === undefined ? advice : `${advice} ${said}`));
  return applyEdits(bytes, [edit]).toString();
}
