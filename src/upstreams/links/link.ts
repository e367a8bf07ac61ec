import { AmbitError } from '../../errors.ts';
import type { Channel, Era, FinalReply } from '../../protocol/channel.ts';
import type { Edit } from '../../protocol/json/edit.ts';
import { type Message, readMessage } from '../../protocol/message.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Caller } from './caller.ts';
import type { RequestActor } from './relay/context-attacher.ts';
import type { PendingCall, PendingCalls } from './relay/pending-calls.ts';
import type { Binding } from './relay/towards-upstream.ts';
import type { SpareProcess } from './stdio/link-process.ts';
import { noReplyError } from './upstream-errors.ts';

/** A notification or a request of an upstream. */
export interface ServerMessage {
  readonly upstream: ServerDefinition;
  readonly link: Link;
  readonly message: Message;
  readonly pending: PendingCalls;
  readonly callers: readonly Caller[];
  readonly binding: Binding;
  /** The call with whose answer it came, where the transport tells. */
  readonly call: PendingCall | undefined;
  /** The only session that a shared process has served so far; null once there were more. */
  readonly soleSessionId?: string | null | undefined;
  /** The full channels of a shared process. They miss messages, so that one slow reader does not stop the others. */
  readonly fullChannels?: WeakSet<Channel> | undefined;
  /** The client that a question is for, where a bridge took it from the answer to a call. */
  readonly target?: QuestionTarget;
  /** Sends the upstream the answer to its request. */
  respond(message: Buffer): void;
  /** Holds a question for a client that gets no pushes, where a bridge can; false when there is no such client. */
  readonly holdQuestion?: (sent: ServerMessage) => boolean;
}

/** The client that is asked, and its channel. */
export type QuestionTarget = Pick<PendingCall, 'channel' | 'caller' | 'binding'>;

export interface ServerMessageDelivery {
  readonly delivered: boolean;
  /** A channel that took the message but is full now: the link pauses until it has room. */
  readonly full: Channel | undefined;
}

/** Takes the messages of an upstream that are no answers. */
export type OnServerMessage = (sent: ServerMessage) => Promise<ServerMessageDelivery>;

/** One request to an upstream. */
export interface UpstreamCall {
  readonly message: Message;
  /** The edits of the pipeline; the link adds its own. */
  readonly edits: readonly Edit[];
  readonly channel: Channel;
  readonly headers: () => Readonly<Record<string, string>>;
  /** Handshake era only. */
  readonly caller: Caller | undefined;
  /** Undefined for requests of Ambit's own. */
  readonly acting: RequestActor | undefined;
  /** True in the modern era, where a closed response is the cancellation. */
  readonly cancelOnGone: boolean;
  /** True for a client of all servers: a question to a person gets the name of its server. */
  readonly namesAsker?: boolean;
}

/** A connection to one upstream in one era: a process or an HTTP endpoint, for one session or several. */
export interface Link {
  /** Undefined where several sessions share the link. */
  readonly sessionId: string | undefined;
  /** The key of that session and its workspace. */
  readonly scopeKey: string | undefined;
  readonly server: string;
  readonly era: Era;
  request(call: UpstreamCall): Promise<FinalReply>;
  /** Sends a notification of the caller. */
  notify(call: UpstreamCall): void;
  /** Sends the caller's answer to a push. */
  answer(upstreamId: string, message: Message, edits: readonly Edit[], sessionId: string): void;
  /** Cancels the request that this connection or caller made under this id. */
  cancel(from: object, requestId: string, message: Message): void;
  callerCount(): number;
  attach(caller: Caller): void;
  detach(caller: Caller): void;
  /** Called when the caller has opened its stream. */
  listen(caller: Caller): void;
  /** Fails the calls of a session that has ended or may no longer use the link; the others go on. */
  dropSession(sessionId: string, reason: AmbitError): void;
  /** True when the link holds this call, or any, open for a client that is away to answer a question. */
  holdsCall?(call?: UpstreamCall): boolean;
  /** Ends calls that have waited too long, and a process that is idle for too long. */
  sweep(now: number): void;
  close(reason: AmbitError): Promise<void>;
  isClosed(): boolean;
  /** True while the process of a stdio server runs and takes calls: its era is known. */
  isReady?(): boolean;
  /** True while a call waits for its answer; a listen stream does not count. */
  isBusy(): boolean;
  /** Gives up the process of a stdio server that has had no call, so that a link of the other era can use it. */
  releaseProcess?(): SpareProcess | undefined;
  /** Takes the process of a link of the other era, unless this link has a process. */
  adoptProcess?(spare: SpareProcess): void;
  /** The link below a bridge, where others use it too. */
  readonly base?: Link;
}

/** The first handshake of a link. */
export interface Handshake {
  readonly version: string;
  /** The `result` of initialize, as the upstream wrote it. */
  readonly result: string;
}

/** A link that is connected to its upstream directly. Bridges between the eras use one. */
export interface BaseLink extends Link {
  readonly pending: PendingCalls;
  /** Connects without a request. `callId` is the correlation id of the call that needs it. */
  ready(callId?: string): Promise<void>;
  /** Opens the upstream's stream for messages that no request waits for, as long as `stream` is open. */
  openStream(stream: Channel): void;
}

/** Creates the link of a restored client until its first request opens a real one. */
export function disconnectedLink(sessionId: string, scopeKey: string, server: string): Link {
  return {
    sessionId,
    scopeKey,
    server,
    era: 'handshake',
    async request() {
      throw new AmbitError('UPSTREAM_FAILED');
    },
    notify() {},
    answer() {},
    cancel() {},
    callerCount: () => 0,
    attach() {},
    detach() {},
    listen() {},
    dropSession() {},
    sweep() {},
    async close() {},
    // A closed link is replaced by a new one.
    isClosed: () => true,
    isBusy: () => false,
  };
}

/** A channel that is gone from the start: questions of a server during a call of Ambit's own reach nobody. */
export const closedChannel: Channel = {
  owner: {},
  isGone: () => true,
  emit: () => true,
  onDrain() {},
  onGone() {},
  close() {},
};

/** Creates a call of Ambit's own. `params` is JSON text. */
export function createOwnCall(method: string, params: string, channel: Channel = closedChannel): UpstreamCall {
  const message = readMessage(
    Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":${JSON.stringify(method)},"params":${params}}`),
  );
  return { message, edits: [], channel, headers: () => ({}), caller: undefined, acting: undefined, cancelOnGone: true };
}

export async function askUpstream(link: Link, method: string, params = '{}', caller?: Caller): Promise<Message> {
  const reply = await link.request({ ...createOwnCall(method, params), caller });
  if (reply.kind !== 'message') throw noReplyError(link.server, method);
  return readMessage(reply.bytes);
}
