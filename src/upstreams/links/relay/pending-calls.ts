import { AmbitError } from '../../../errors.ts';
import type { SetEntry } from '../../../lib/async/short-lived-set.ts';
import type { Channel, FinalReply } from '../../../protocol/channel.ts';
import { findMember } from '../../../protocol/json/scan.ts';
import { findFailure, type Message } from '../../../protocol/message.ts';
import type { ServerDefinition } from '../../definition.ts';
import type { Caller } from '../caller.ts';
import type { UpstreamCall } from '../link.ts';
import { explainEffect } from '../upstream-errors.ts';
import { findQuestionRefusalIn } from './questions.ts';
import type { RequestOrigin } from './towards-client.ts';
import { type Binding, readProgressToken } from './towards-upstream.ts';

/** The methods whose answer may be a question. */
export const questionCarriers: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** One call that an upstream has not answered yet. */
export interface PendingCall extends RequestOrigin {
  readonly upstreamId: number;
  readonly progressToken: string | undefined;
  readonly wantsLogs: boolean;
  readonly channel: Channel;
  readonly caller: Caller | undefined;
  /** The binding of the session that made the call. */
  readonly binding: Binding;
  readonly namesAsker: boolean;
  readonly settle: (reply: FinalReply) => void;
  readonly fail: (error: Error) => void;
  /** The time that the upstream may stay silent. A listen stream has no limit. */
  readonly timeoutMs: number;
  lastHeardAt: number;
  /** True once the call was handed to the transport: from then on it may have an effect. */
  isSent: boolean;
  hasUnknownTask: boolean;
  /** True when the connection of the call is gone. In the handshake era that does not cancel the call. */
  isLost: boolean;
}

export interface PendingCalls {
  size(): number;
  nextId(): number;
  /** Skips the ids up to this one: another link has used them with the same process. */
  skipIds(upTo: number): void;
  add(call: PendingCall): void;
  get(upstreamId: number): PendingCall | undefined;
  /** Removes the call. The code that takes it settles it, once. */
  take(upstreamId: number): PendingCall | undefined;
  /** Changes a call: a bridge lets its client go and come back. */
  replace(upstreamId: number, changes: Partial<PendingCall>): void;
  find(from: object, clientId: string): PendingCall | undefined;
  findYoungest(fits: (call: PendingCall) => boolean): PendingCall | undefined;
  ofSession(sessionId: string): PendingCall[];
  findOverdue(now: number): PendingCall[];
  drain(): PendingCall[];
}

/** A call in the table of calls. It is emptied when the call is taken, for the reason that `ShortLivedSet` gives. */
interface PendingEntry {
  call: PendingCall | undefined;
  /** The entry in the open channels of the caller. */
  readonly channel: SetEntry<Channel> | undefined;
}

export function createPendingCalls(): PendingCalls {
  const entries = new Map<number, PendingEntry>();
  let last = 0;

  function* listCalls(): Iterable<PendingCall> {
    for (const { call } of entries.values()) if (call !== undefined) yield call;
  }

  function take(upstreamId: number): PendingCall | undefined {
    const entry = entries.get(upstreamId);
    if (entry === undefined) return undefined;
    const { call, channel } = entry;
    entry.call = undefined;
    entries.delete(upstreamId);
    if (channel !== undefined) call?.caller?.openChannels.remove(channel);
    return call;
  }

  return {
    size: () => entries.size,
    nextId: () => ++last,
    skipIds(upTo) {
      last = Math.max(last, upTo);
    },
    add(call) {
      entries.set(call.upstreamId, { call, channel: call.caller?.openChannels.add(call.channel) });
      call.channel.onGone(() => {
        call.isLost = true;
      });
    },
    get: (upstreamId) => entries.get(upstreamId)?.call,
    take,
    replace(upstreamId, changes) {
      const entry = entries.get(upstreamId);
      if (entry?.call !== undefined) entry.call = { ...entry.call, ...changes, lastHeardAt: Date.now() };
    },
    find(from, clientId) {
      for (const call of listCalls()) {
        if ((call.channel.owner === from || call.caller === from) && call.clientId === clientId) return call;
      }
      return undefined;
    },
    findYoungest(fits) {
      let found: PendingCall | undefined;
      for (const call of listCalls()) if (fits(call)) found = call;
      return found;
    },
    ofSession: (sessionId) => [...listCalls()].filter(({ binding }) => binding.sessionId === sessionId),
    findOverdue: (now) => [...listCalls()].filter(({ lastHeardAt, timeoutMs }) => now - lastHeardAt > timeoutMs),
    drain: () => [...entries.keys()].flatMap((upstreamId) => take(upstreamId) ?? []),
  };
}

/** Creates the entry of a call that is about to be sent. `message` is the call as it is sent. */
export function createPendingCall(
  call: UpstreamCall,
  message: Message,
  name: string,
  upstreamId: number,
  binding: Binding,
  timeoutMs: number,
  settle: (reply: FinalReply) => void,
  fail: (error: Error) => void,
): PendingCall {
  return {
    upstreamId,
    clientId: message.id as string,
    method: message.method,
    name,
    progressToken: readProgressToken(message),
    wantsLogs: findMember(message.meta, 'io.modelcontextprotocol/logLevel') !== undefined,
    channel: call.channel,
    caller: call.caller,
    binding,
    namesAsker: call.namesAsker ?? false,
    settle,
    fail,
    timeoutMs: message.method === 'subscriptions/listen' ? Number.POSITIVE_INFINITY : timeoutMs,
    lastHeardAt: Date.now(),
    isSent: false,
    hasUnknownTask: false,
    isLost: false,
  };
}

/** Settles a call with the answer of its server, or with a refusal. A faulty answer fails only this call. */
export function settleCall(
  server: ServerDefinition,
  call: PendingCall,
  message: Message,
  prepare: () => FinalReply,
): void {
  try {
    const refusal = findQuestionRefusalIn(server, message);
    if (refusal !== undefined) {
      call.fail(refusal);
      return;
    }
    const reply = prepare();
    const failure = findFailure(message);
    call.settle(failure === undefined || reply.kind !== 'message' ? reply : { ...reply, failure });
  } catch (cause) {
    const what = `The answer of the server "${server.name}" is not valid.`;
    failCall(call, new AmbitError('UPSTREAM_FAILED', { what, cause }));
  }
}

/** Fails a call that was taken. The error says whether the call may have had an effect. */
export function failCall(call: PendingCall, error: Error): void {
  call.fail(explainEffect(error, call.method, call.isSent));
}
