import { randomBytes, randomInt } from 'node:crypto';
import { ShortLivedSet } from '../../lib/async/short-lived-set.ts';
import type { Channel } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { Link } from './link.ts';

/** A request that an upstream has pushed to a caller, which waits for the caller's answer. */
interface Push {
  readonly link: Link;
  /** The text of the id on the upstream's side. */
  readonly upstreamId: string;
  readonly progressToken: string | undefined;
}

/**
 * One handshake-era client: MCP's transport session, bound to its Ambit session and to one server. It exists in memory
 * only.
 */
export interface Caller {
  readonly id: string;
  readonly sessionId: string;
  readonly server: string;
  /** The workspace of its session, or the one that it announced. */
  readonly workspaceId: string | undefined;
  /** The workspace that it announced and may not use. */
  readonly unavailableWorkspace: string | undefined;
  readonly version: string;
  /** Changes when its server gets a new definition. */
  link: Link;
  /** The client's `initialize`, so that it can be repeated. */
  readonly initialize: Message;
  readonly parent: Caller | undefined;
  /** The stream for messages that no request waits for: an open GET, or stdout. */
  stream: Channel | undefined;
  /** The channels of the open requests, the youngest last. */
  readonly openChannels: ShortLivedSet<Channel>;
  readonly pushes: Map<string, Push>;
  /** Makes ids for requests to this client, never one twice. */
  nextPushId(): number;
  pushCount(): number;
  /** The subscribed resources: the client's address of each by the server's own. */
  readonly subscriptions: Map<string, string>;
  lastActiveAt: number;
  /** True when the client has left, or its session has ended. */
  isEnded: boolean;
  /** Called when it ends. */
  readonly endListeners: Set<() => void>;
}

export interface Callers {
  /** Opens a caller. `parent` is the client of all servers behind which it was opened: it gets the questions. */
  open(
    caller: Pick<Caller, 'sessionId' | 'server' | 'version' | 'link' | 'initialize'> & {
      readonly workspaceId?: string | undefined;
      readonly unavailableWorkspace?: string | undefined;
      readonly parent?: Caller;
      /** The id of a caller that is restored. */
      readonly id?: string;
    },
  ): Caller;
  get(id: string): Caller | undefined;
  end(caller: Caller): void;
  /** Forgets a caller that was replaced; its open requests go on. */
  forget(caller: Caller): void;
  endSession(sessionId: string): void;
  byLink(link: Link): Caller[];
  byServer(server: string): Caller[];
  readonly size: number;
}

/** The number of open questions of servers to one client. */
export const maxPushes = 64;

const maxCallersPerSession = 64;

/** Parses the slot of a caller among those of its session; undefined for an id that is not ours. */
export function parseCallerSlot(id: string): number | undefined {
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
    // The stream of a child belongs to its parent.
    if (caller.parent === undefined) caller.stream?.close();
    caller.isEnded = true;
    for (const listener of caller.endListeners) listener();
    caller.endListeners.clear();
  }

  /** Picks a slot that no other client has here. Those of other processes are not known. */
  function pickFreeSlot(siblings: Iterable<Caller>): string {
    const takenSlots = new Set([...siblings].map(({ id }) => parseCallerSlot(id)));
    let slot = randomInt(maxCallersPerSession);
    for (let tried = 0; tried < maxCallersPerSession && takenSlots.has(slot); tried++)
      slot = (slot + 1) % maxCallersPerSession;
    return slot.toString(16).padStart(2, '0');
  }

  return {
    open({ sessionId, server, workspaceId, unavailableWorkspace, version, link, initialize, parent, id: known }) {
      // A restored client may have been asked before. No id may come again.
      let pushCount = known === undefined ? 0 : Date.now();
      let stream: Channel | undefined;
      const siblings = bySession.get(sessionId) ?? new Set();
      bySession.set(sessionId, siblings);
      // Clients that never send DELETE must not pile up: the longest idle one is ended.
      const own = parent === undefined ? [...siblings].filter((sibling) => sibling.parent === undefined) : [];
      if (own.length >= maxCallersPerSession) end(own.reduce((a, b) => (a.lastActiveAt <= b.lastActiveAt ? a : b)));
      bySession.set(sessionId, siblings);
      const caller: Caller = {
        id: known ?? `${randomBytes(16).toString('hex')}${parent === undefined ? pickFreeSlot(siblings) : ''}`,
        sessionId,
        server,
        workspaceId,
        unavailableWorkspace,
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
        openChannels: new ShortLivedSet(),
        pushes: parent?.pushes ?? new Map(),
        nextPushId: parent?.nextPushId ?? (() => ++pushCount),
        pushCount: parent?.pushCount ?? (() => pushCount),
        subscriptions: new Map(),
        lastActiveAt: Date.now(),
        isEnded: false,
        endListeners: new Set(),
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
    byServer: (server) => [...all.values()].filter((caller) => caller.server === server),
    byLink: (link) => [...all.values()].filter((caller) => caller.link === link),
    get size() {
      return all.size;
    },
  };
}
