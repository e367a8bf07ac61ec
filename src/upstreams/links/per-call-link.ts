import { AmbitError } from '../../errors.ts';
import type { Era, FinalReply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { hideTasks, withoutTask } from './bridge/era-translation.ts';
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
