import { randomBytes, randomInt } from 'node:crypto';
import type { Channel } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { Link } from './link.ts';

/** A request an upstream has pushed to a caller, waiting for the caller's answer. */
export interface Push {
  readonly link: Link;
  /** The id's own text on the upstream's side. */
  readonly upstreamId: string;
  readonly progressToken: string | undefined;
}

/**
 * One handshake-era client: MCP's transport session, bound to the session it was opened in and to one server.
 * A live thing, so it stands here and not beside the session's record.
 */
export interface Caller {
  readonly id: string;
  readonly sessionId: string;
  readonly server: string;
  /** Where it stands: its session's own workspace, or the one it announced. */
  readonly workspaceId: string | undefined;
  readonly version: string;
  /** Changes when its server is described anew. */
  link: Link;
  /** What the client said when it opened, for whoever has to say it again. */
  readonly initialize: Message;
  readonly parent: Caller | undefined;
  /** The stream for what no request waits for: an open GET, or stdout. */
  stream: Channel | undefined;
  /** Channels of the requests under way, the youngest last. */
  readonly underWay: Set<Channel>;
  readonly pushes: Map<string, Push>;
  /** Ids for what is asked of this client, never used twice. */
  nextPushId(): number;
  /** How many there have been. */
  pushed(): number;
  /** Resources this caller has subscribed to: by the server's own address, what the client calls it. */
  readonly subscriptions: Map<string, string>;
  lastActiveAt: number;
}

export interface Callers {
  /** `parent` is the client of all servers this one stands behind: what is asked of it is asked of the parent. */
  open(
    caller: Pick<Caller, 'sessionId' | 'server' | 'version' | 'link' | 'initialize'> & {
      readonly workspaceId?: string | undefined;
      readonly parent?: Caller;
      /** Of one that is known from before: its client goes on under it. */
      readonly id?: string;
    },
  ): Caller;
  get(id: string): Caller | undefined;
  end(caller: Caller): void;
  /** Another takes its place: it is known no longer, but what it has under way goes on. */
  forget(caller: Caller): void;
  endSession(sessionId: string): void;
  ofLink(link: Link): Caller[];
  ofServer(server: string): Caller[];
  readonly size: number;
}

/** Questions of servers that one client may have open: it must answer some before it is asked more. */
export const mostPushes = 64;

const maxCallersPerSession = 64;

/** Which of the places for the clients of a session this one has; undefined for what is no id of ours. */
export function seatOf(id: string): number | undefined {
  const slot = /^[0-9a-f]{32}([0-3][0-9a-f])$/.exec(id)?.[1];
  return slot === undefined ? undefined : Number.parseInt(slot, 16);
}

export function createCallers(): Callers {
  const all = new Map<string, Caller>();
  const bySession = new Map<string, Set<Caller>>();

  function forget(caller: Caller): boolean {
    if (!all.delete(caller.id)) return false;
    const siblings = bySession.get(caller.sessionId);
    siblings?.delete(caller);
    if (siblings?.size === 0) bySession.delete(caller.sessionId);
    return true;
  }

  function end(caller: Caller): void {
    if (!forget(caller)) return;
    caller.link.detach(caller);
    // The stream of one that stands behind another is the other's.
    if (caller.parent === undefined) caller.stream?.close();
  }

  /** One that no other client here has, at a venture: those of other processes are not known. */
  function pickFreeSlot(siblings: Iterable<Caller>): string {
    const takenSlots = new Set([...siblings].map(({ id }) => seatOf(id)));
    let slot = randomInt(maxCallersPerSession);
    for (let tried = 0; tried < maxCallersPerSession && takenSlots.has(slot); tried++)
      slot = (slot + 1) % maxCallersPerSession;
    return slot.toString(16).padStart(2, '0');
  }

  return {
    open({ sessionId, server, workspaceId, version, link, initialize, parent, id: known }) {
      // What was asked of it before is not known: no number may come again.
      let pushCount = known === undefined ? 0 : Date.now();
      let stream: Channel | undefined;
      const siblings = bySession.get(sessionId) ?? new Set();
      bySession.set(sessionId, siblings);
      // Clients that never say DELETE must not pile up: the idlest one makes room.
      const own = parent === undefined ? [...siblings].filter((sibling) => sibling.parent === undefined) : [];
      if (own.length >= maxCallersPerSession) end(own.reduce((a, b) => (a.lastActiveAt <= b.lastActiveAt ? a : b)));
      bySession.set(sessionId, siblings);
      const caller: Caller = {
        id: known ?? `${randomBytes(16).toString('hex')}${parent === undefined ? pickFreeSlot(siblings) : ''}`,
        sessionId,
        server,
        workspaceId,
        version,
        link,
        initialize,
        parent,
        get stream() {
          return parent === undefined ? stream : parent.stream;
        },
        set stream(opened) {
          stream = opened;
        },
        underWay: new Set(),
        pushes: parent?.pushes ?? new Map(),
        nextPushId: parent?.nextPushId ?? (() => ++pushCount),
        pushed: parent?.pushed ?? (() => pushCount),
        subscriptions: new Map(),
        lastActiveAt: Date.now(),
      };
      siblings.add(caller);
      all.set(caller.id, caller);
      link.attach(caller);
      return caller;
    },
    get: (id) => all.get(id),
    end,
    forget: (caller) => void forget(caller),
    endSession(sessionId) {
      for (const caller of [...(bySession.get(sessionId) ?? [])]) end(caller);
    },
    ofServer: (server) => [...all.values()].filter((caller) => caller.server === server),
    ofLink: (link) => [...all.values()].filter((caller) => caller.link === link),
    get size() {
      return all.size;
    },
  };
}
