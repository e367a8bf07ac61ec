import type { AmbitError } from '../../errors.ts';
import type { Channel, Era, Reply } from '../../protocol/channel.ts';
import type { Edit } from '../../protocol/json/edit.ts';
import type { Message } from '../../protocol/message.ts';
import type { Caller } from './caller.ts';
import type { PendingCalls } from './relay/pending.ts';
import type { Acting } from './relay/teller.ts';

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
  holds?(call?: Call): boolean;
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
