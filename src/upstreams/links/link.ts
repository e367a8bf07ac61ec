import { AmbitError } from '../../errors.ts';
import type { Channel, Era, Reply } from '../../protocol/channel.ts';
import type { Edit } from '../../protocol/json/edit.ts';
import type { Message } from '../../protocol/message.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Caller } from './caller.ts';
import type { Acting } from './relay/context-attacher.ts';
import type { PendingCall, PendingCalls } from './relay/pending-calls.ts';
import type { Binding } from './relay/towards-upstream.ts';

/** Something an upstream said that is no answer: a notification, or a request of its own. */
export interface Sent {
  readonly upstream: ServerDefinition;
  readonly link: Link;
  readonly message: Message;
  readonly pending: PendingCalls;
  readonly callers: readonly Caller[];
  readonly binding: Binding;
  /** The call on whose answer it came, where the transport says so. */
  readonly call: PendingCall | undefined;
  /**
   * Where several sessions share the process: the only one it has served so far; null once there were more, when nobody
   * can say any longer whom it speaks of.
   */
  readonly sole?: string | null | undefined;
  /** Channels that are full, where one slow reader must not hold back the others: they miss what comes. */
  readonly clogged?: WeakSet<Channel> | undefined;
  /** Whom a question is for, where a bridge carries it out of the answer to a call. */
  readonly asking?: Asking;
  /** Tells the upstream how its own request ended. */
  respond(message: Buffer): void;
  /** Where a bridge can carry a push to a client that is not pushed to; false when nobody is there to ask. */
  readonly hold?: (sent: Sent) => boolean;
}

/** The one who is asked, and how. */
export type Asking = Pick<PendingCall, 'channel' | 'caller' | 'binding'>;

export interface Delivery {
  readonly delivered: boolean;
  /** A channel that took the message but has no room for more: the link holds back until it has. */
  readonly full: Channel | undefined;
}

/** Where a link hands over what its upstream says by itself. */
export type OnServerMessage = (sent: Sent) => Promise<Delivery>;

/** One request on its way to an upstream. */
export interface Call {
  readonly message: Message;
  /** The changes the pipeline means to make; the link adds its own. */
  readonly edits: readonly Edit[];
  readonly channel: Channel;
  readonly headers: () => Readonly<Record<string, string>>;
  /** Handshake era only. */
  readonly caller: Caller | undefined;
  /** Undefined for what Ambit asks by itself. */
  readonly acting: Acting | undefined;
  /** In the modern era a closed response is the cancellation; before, a client says so. */
  readonly cancelOnGone: boolean;
  /** The caller speaks to all servers at once: whoever asks something of a person says its name. */
  readonly namesAsker?: boolean;
}

/** A connection to one upstream in one era, a process or an HTTP endpoint; of one session, unless its scope is wider. */
export interface Link {
  /** Undefined where several sessions share it. */
  readonly sessionId: string | undefined;
  /** Where that session stands, for what is told of one place and not of another. */
  readonly place: string | undefined;
  readonly server: string;
  readonly era: Era;
  request(call: Call): Promise<Reply>;
  /** A notification from the caller; nobody waits for it. */
  notify(call: Call): void;
  /** The caller's answer to a push. */
  answer(upstreamId: string, message: Message, edits: readonly Edit[], sessionId: string): void;
  /** The request that this connection or caller made under this id is no longer wanted. */
  cancel(from: object, requestId: string, message: Message): void;
  /** How many callers it has. */
  attached(): number;
  attach(caller: Caller): void;
  detach(caller: Caller): void;
  /** The caller opened its stream, for upstreams that need to be told. */
  listen(caller: Caller): void;
  /** A session that shared it has ended or may no longer use it; what it waits for fails, the others go on. */
  leave(sessionId: string, reason: AmbitError): void;
  /** Whether it holds a call open, this one or any, for a client that is away answering. */
  holdsCall?(call?: Call): boolean;
  /** Ends calls that have waited too long, and the process when nothing has used it for long. */
  tend(now: number): void;
  close(reason: AmbitError): Promise<void>;
  isClosed(): boolean;
  /** Somebody waits for an answer; a stream that only listens is no reason to stay. */
  isBusy(): boolean;
  /** The link that this one stands on, where others use it too. */
  readonly base?: Link;
}

/** The first handshake of a link: what the client asked, what the upstream answered. */
export interface Handshake {
  readonly version: string;
  /** The `result` of initialize, as the upstream wrote it. */
  readonly result: string;
}

/** A link that speaks to its upstream itself; bridges between the eras stand on one. */
export interface BaseLink extends Link {
  readonly pending: PendingCalls;
  /** Connects without asking anything. */
  ready(): Promise<void>;
  /** Opens the upstream's stream for what no request waits for, as long as `stream` stands; over stdio it always is. */
  openStream(stream: Channel): void;
}

/** Stands for the link of a client that is known from before, until its first request makes a real one. */
export function absentLink(sessionId: string, place: string, server: string): Link {
  return {
    sessionId,
    place,
    server,
    era: 'handshake',
    async request() {
      throw new AmbitError('UPSTREAM_FAILED');
    },
    notify() {},
    answer() {},
    cancel() {},
    attached: () => 0,
    attach() {},
    detach() {},
    listen() {},
    leave() {},
    tend() {},
    async close() {},
    // So that whoever looks makes another.
    isClosed: () => true,
    isBusy: () => false,
  };
}
