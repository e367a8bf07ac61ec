import { AmbitError } from '../../errors.ts';
import type { Era, Reply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import { ProtocolFault } from '../../protocol/protocol-fault.ts';
import type { Caller } from './caller.ts';
import type { Call, Link } from './link.ts';

export interface PerCallOptions {
  readonly sessionId: string;
  readonly place: string;
  readonly server: string;
  readonly era: Era;
  /** A link of its own for one call. */
  createLink(): Link;
  /** What need not be asked again: a handshake that has been made. */
  findKnownReply(message: Message): Reply | undefined;
}

/** Scope `call`: every request is served by a process of its own, which ends when it has answered. */
export function createPerCallLink(options: PerCallOptions): Link {
  const { server, era } = options;
  const running = new Set<Link>();
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;

  function startLink(call: Call): Link {
    const link = options.createLink();
    running.add(link);
    if (call.caller !== undefined) link.attach(call.caller);
    return link;
  }

  function endLink(link: Link, reason: AmbitError): Promise<void> {
    return running.delete(link) ? link.close(reason) : Promise.resolve();
  }

  /** A process whose question the client has yet to answer stays for it. */
  function endIfDone(link: Link): void {
    if (!link.isBusy() && link.holdsCall?.() !== true) void endLink(link, new AmbitError('UPSTREAM_FAILED'));
  }

  return {
    sessionId: options.sessionId,
    place: options.place,
    server,
    era,
    attached: () => callers.size,
    isBusy: () => [...running].some((link) => link.isBusy()),
    isClosed: () => closing !== undefined,

    async request(call) {
      if (closing !== undefined) throw closing;
      const known = options.findKnownReply(call.message);
      if (known !== undefined) return known;
      // Nothing outlives a call that could be listened to.
      if (call.message.method === 'subscriptions/listen') throw new ProtocolFault(-32601, 404, 'Method not found');
      const link = [...running].find((each) => each.holdsCall?.(call)) ?? startLink(call);
      try {
        return await link.request(call);
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
    leave() {},
    tend(now) {
      for (const link of running) {
        link.tend(now);
        endIfDone(link);
      }
    },
    async close(reason) {
      closing ??= reason;
      await Promise.all([...running].map((link) => endLink(link, reason)));
    },
  };
}
