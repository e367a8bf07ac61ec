import { AmbitError } from '../../errors.ts';
import { accepted, type Era, type Reply } from '../../protocol/channel.ts';
import { notificationMessage, resultMessage } from '../../protocol/compose.ts';
import { memberOf, rawAt, stringAt } from '../../protocol/json/scan.ts';
import { readJudged } from '../../protocol/judged-value.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolFault } from '../../protocol/protocol-fault.ts';
import type { Toolset } from '../../sessions/tools/toolset.ts';
import { toolOf } from '../../upstreams/access/tool-access.ts';
import type { InProcessServer } from '../../upstreams/definition.ts';
import type { Call, Link } from '../../upstreams/links/link.ts';
import { asksForTools, subscriptionKey } from '../lists/tool-listeners.ts';
import { listReply } from './lists.ts';
import { discoverOwn, initializeOwn } from './own-results.ts';
import { ownServer } from './own-tools.ts';
import { quietLink } from './quiet-link.ts';

interface ListenStream {
  readonly owner: object;
  readonly id: string;
  readonly sessionId: string | undefined;
  end(): void;
  fail(reason: AmbitError): void;
}

/** The server of Ambit's own tools. It runs in this process; the pipeline treats it like any other server. */
export function createOwnServer(tools: Toolset): InProcessServer {
  const links = { modern: createOwnLink(tools, 'modern'), handshake: createOwnLink(tools, 'handshake') };
  return { kind: 'in-process', name: ownServer, source: 'operator', links };
}

/** A link to Ambit's own tools, for clients of one era. All sessions share it. */
function createOwnLink(tools: Toolset, era: Era): Link {
  /** The open listen streams. On stdio they end by being cancelled. */
  const listening = new Set<ListenStream>();
  const listed = tools.list().map((definition) => JSON.stringify(definition));

  async function callTool({ message, acting }: Call): Promise<Reply> {
    if (acting?.principal === undefined) throw new AmbitError('INTERNAL');
    const { session, principal, correlationId } = acting;
    const caller = { session, principal, correlationId };
    const result = await tools.run(toolOf(message) ?? '', readArguments(message), caller);
    return answer(message, JSON.stringify(era === 'modern' ? { resultType: 'complete', ...result } : result));
  }

  /** Acknowledges a listen stream. The tools never change; `enforceToolRules` tells when the session may use others. */
  function listen({ message, channel, acting }: Call): Promise<Reply> {
    const id = message.id as string;
    const notifications = asksForTools({ era, message }) ? { toolsListChanged: true } : {};
    const _meta = { [subscriptionKey]: JSON.parse(id) as unknown };
    channel.emit(notificationMessage('notifications/subscriptions/acknowledged', { notifications, _meta }));
    let stream: ListenStream | undefined;
    return new Promise<Reply>((resolve, fail) => {
      stream = { owner: channel.owner, id, sessionId: acting?.session.id, end: () => resolve(accepted), fail };
      listening.add(stream);
      channel.onGone(stream.end);
    }).finally(() => stream && listening.delete(stream));
  }

  return {
    ...quietLink({ sessionId: undefined, place: undefined, server: ownServer, era }),
    async request(call) {
      const { message } = call;
      const { method } = message;
      if (method === 'tools/call') return callTool(call);
      if (method === 'tools/list') return listReply({ message, era }, 'tools', { texts: listed, unavailable: [] });
      if (era === 'modern' && method === 'server/discover') return answer(message, discoverOwn());
      if (era === 'modern' && method === 'subscriptions/listen') return listen(call);
      if (era === 'handshake' && method === 'initialize') {
        const requested = stringAt(message.bytes, memberOf(message.params?.shape, 'protocolVersion'));
        return answer(message, initializeOwn(requested).result);
      }
      if (era === 'handshake' && method === 'ping') return answer(message, '{}');
      throw new ProtocolFault(-32601, era === 'modern' ? 404 : 200, 'Method not found');
    },
    cancel(from, requestId) {
      for (const stream of listening) if (stream.owner === from && stream.id === requestId) stream.end();
    },
    leave(sessionId, reason) {
      for (const stream of listening) if (stream.sessionId === sessionId) stream.fail(reason);
    },
    // The sessions share it: that one of its clients leaves does not close it.
    detach() {},
    isClosed: () => false,
  };
}

function answer(message: Message, result: string): Reply {
  return { kind: 'message', bytes: resultMessage(message.id as string, result), status: 200 };
}

/** Refuses arguments that would not be kept as they were sent: a number beyond a double, a name that is there twice. */
function readArguments({ bytes, params }: Message): unknown {
  const member = memberOf(params?.shape, 'arguments');
  if (member === undefined) return {};
  const text = rawAt(bytes, member);
  const judged = readJudged(text, new Set());
  if (judged.kind === 'read') return JSON.parse(text) as unknown;
  throw new AmbitError('REQUEST_INVALID', { what: `The arguments cannot be taken: ${judged.reason}.` });
}
