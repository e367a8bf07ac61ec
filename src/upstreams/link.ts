import type { AmbitError } from '../errors.ts';
import type { Channel, Era, Reply } from '../wire/channel.ts';
import type { Edit } from '../wire/edit.ts';
import type { Message } from '../wire/message.ts';
import type { Caller } from './caller.ts';

/** One request on its way to an upstream. */
export interface Call {
  readonly message: Message;
  /** The changes the corridor means to make; the link adds its own. */
  readonly edits: readonly Edit[];
  readonly channel: Channel;
  readonly headers: Readonly<Record<string, string>>;
  /** Handshake era only. */
  readonly caller: Caller | undefined;
}

/** A connection to one upstream on behalf of one session, in one era: a process, or an HTTP endpoint. */
export interface Link {
  readonly sessionId: string;
  readonly server: string;
  readonly era: Era;
  request(call: Call): Promise<Reply>;
  /** A notification from the caller; nobody waits for it. */
  notify(call: Call): void;
  /** The caller's answer to a push. */
  answer(upstreamId: string, message: Message, edits: readonly Edit[]): void;
  /** The request that this connection or caller made under this id is no longer wanted. */
  cancel(from: object, requestId: string, message: Message): void;
  /** Ids for what upstreams ask of callers, never used twice on a link. */
  nextPushId(): number;
  /** How many callers it has. */
  readonly attached: number;
  attach(caller: Caller): void;
  detach(caller: Caller): void;
  /** The caller opened its stream, for upstreams that need to be told. */
  listen(caller: Caller): void;
  /** Ends calls that have waited too long, and the process when nothing has used it for long. */
  tend(now: number): void;
  close(reason: AmbitError): Promise<void>;
  readonly closed: boolean;
}

/** The first handshake of a link: what the client asked, what the upstream answered. */
export interface Handshake {
  readonly version: string;
  /** The `result` of initialize, as the upstream wrote it. */
  readonly result: string;
}
