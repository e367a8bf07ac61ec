import type { Channel } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Caller } from './caller.ts';
import type { Link } from './link.ts';
import type { PendingCall, PendingCalls } from './relay/pending.ts';
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
export type Outward = (sent: Sent) => Promise<Delivery>;
