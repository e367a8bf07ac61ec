import { AmbitError } from '../errors.ts';
import type { Era, Reply } from '../wire/channel.ts';
import type { Message } from '../wire/message.ts';
import { ProtocolFault } from '../wire/protocol-fault.ts';
import type { Caller } from './caller.ts';
import type { Call, Link } from './link.ts';

/** How many processes of one server a session has at the same time, over all its clients. */
export interface Room {
  taken: number;
}

export interface PerCallOptions {
  readonly sessionId: string;
  readonly place: string;
  readonly server: string;
  readonly era: Era;
  readonly room: Room;
  /** A link of its own for one call. */
  make(): Link;
  /** What need not be asked again: a handshake that has been made. */
  known(message: Message): Reply | undefined;
}

export const mostAtOnce = 32;

/** Scope `call`: every request is served by a process of its own, which ends when it has answered. */
export function createPerCallLink(options: PerCallOptions): Link {
  const { server, era, room } = options;
  const running = new Set<Link>();
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;

  function start(call: Call): Link {
    if (room.taken >= mostAtOnce) {
      throw new AmbitError('OVERLOADED', {
        what: `The server "${server}" serves ${mostAtOnce} calls of this session.`,
      });
    }
    const link = options.make();
    room.taken++;
    running.add(link);
    if (call.caller !== undefined) link.attach(call.caller);
    return link;
  }

  function end(link: Link, reason: AmbitError): Promise<void> {
    if (!running.delete(link)) return Promise.resolve();
    room.taken--;
    return link.close(reason);
  }

  /** A process whose question the client has yet to answer stays for it. */
  function endIfDone(link: Link): void {
    if (!link.isBusy() && link.holds?.() !== true) void end(link, new AmbitError('UPSTREAM_FAILED'));
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
      const known = options.known(call.message);
      if (known !== undefined) return known;
      // Nothing outlives a call that could be listened to.
      if (call.message.method === 'subscriptions/listen') throw new ProtocolFault(-32601, 404, 'Method not found');
      const link = [...running].find((each) => each.holds?.(call)) ?? start(call);
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
      await Promise.all([...running].map((link) => end(link, reason)));
    },
  };
}
