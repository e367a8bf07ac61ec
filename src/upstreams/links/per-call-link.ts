import { AmbitError } from '../../errors.ts';
import type { Era, FinalReply } from '../../protocol/channel.ts';
import { applyEdits, removeMembers, replaceValue } from '../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue } from '../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage } from '../../protocol/message.ts';
import { declaresTasks } from '../../protocol/modern-envelope.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { removeTaskCapability, removeTaskSupport } from './bridge/era-translation.ts';
import type { Caller } from './caller.ts';
import type { Link, UpstreamCall } from './link.ts';

export interface PerCallOptions {
  readonly sessionId: string;
  readonly scopeKey: string;
  readonly server: string;
  readonly era: Era;
  createLink(): Link;
  /** Finds a reply that is known already: that of a handshake before. */
  readonly findKnownReply: ((message: Message) => FinalReply | undefined) | undefined;
}

/** Creates a link of scope `call`: each request has its own process, which ends with the answer. */
export function createPerCallLink(options: PerCallOptions): Link {
  const { server, era } = options;
  const running = new Set<Link>();
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;

  function startLink(call: UpstreamCall): Link {
    const link = options.createLink();
    running.add(link);
    if (call.caller !== undefined) link.attach(call.caller);
    return link;
  }

  function endLink(link: Link, reason: AmbitError): Promise<void> {
    return running.delete(link) ? link.close(reason) : Promise.resolve();
  }

  /** Ends a link, unless the client still has to answer its question. */
  function endIfDone(link: Link): void {
    if (!link.isBusy() && link.holdsCall?.() !== true) void endLink(link, new AmbitError('UPSTREAM_FAILED'));
  }

  return {
    sessionId: options.sessionId,
    scopeKey: options.scopeKey,
    server,
    era,
    callerCount: () => callers.size,
    isBusy: () => [...running].some((link) => link.isBusy()),
    isClosed: () => closing !== undefined,

    async request(call) {
      if (closing !== undefined) throw closing;
      const { method } = call.message;
      const known = options.findKnownReply?.(call.message);
      if (known !== undefined) return hideTasks(known, method);
      // No process outlives its call, so there is nothing to listen to, and a task would end before it could be fetched.
      if (method === 'subscriptions/listen' || method.startsWith('tasks/'))
        throw new ProtocolError(-32601, era === 'modern' ? 404 : 200, 'Method not found');
      const link = [...running].find((each) => each.holdsCall?.(call)) ?? startLink(call);
      try {
        return hideTasks(await link.request({ ...call, ...withoutTask(call) }), method);
      } finally {
        endIfDone(link);
      }
    },

    notify(call) {
      if (call.message.method === 'notifications/initialized') return;
      for (const link of running) link.notify(call);
    },
    answer() {},
    cancel(from, requestId, message) {
      for (const link of running) link.cancel(from, requestId, message);
    },
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      for (const link of running) link.detach(caller);
    },
    listen(caller) {
      for (const link of running) link.listen(caller);
    },
    dropSession() {},
    sweep(now) {
      for (const link of running) {
        link.sweep(now);
        endIfDone(link);
      }
    },
    async close(reason) {
      closing ??= reason;
      await Promise.all([...running].map((link) => endLink(link, reason)));
    },
  };
}

/** Removes the request for a task from a call: the client's own in the handshake era, its capability in the modern one. */
function withoutTask({ message, edits }: UpstreamCall): Pick<UpstreamCall, 'message' | 'edits'> {
  if (message.method !== 'tools/call') return { message, edits };
  const clean = applyMessageEdits(message, edits);
  const params = clean.params?.shape;
  const removed = params === undefined ? [] : removeMembers(params, ({ key }) => key === 'task');
  if (declaresTasks(clean)) {
    const capabilities = findMember(clean.meta, 'io.modelcontextprotocol/clientCapabilities') as JsonMember;
    removed.push(replaceValue(capabilities, removeTaskCapability(readRawValue(clean.bytes, capabilities))));
  }
  return { message: applyMessageEdits(clean, removed), edits: [] };
}

/** Removes tasks from what a server says about itself and its tools. Tools that run only as tasks are left out. */
function hideTasks(reply: FinalReply, method: string): FinalReply {
  const describes = method === 'initialize' || method === 'server/discover';
  if (reply.kind !== 'message' || !(describes || method === 'tools/list')) return reply;
  const answer = readMessage(reply.bytes);
  if (!describes) return { ...reply, bytes: removeTaskSupport(answer, true) };
  const capabilities = findMember(answer.result?.shape, 'capabilities');
  if (capabilities === undefined) return reply;
  const text = removeTaskCapability(readRawValue(answer.bytes, capabilities));
  return { ...reply, bytes: applyEdits(answer.bytes, [replaceValue(capabilities, text)]) };
}
