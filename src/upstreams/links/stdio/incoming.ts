import { AmbitError } from '../../../errors.ts';
import { isUnreadableMessage, readServerMessage } from '../../../protocol/ambiguous-keys.ts';
import type { Era } from '../../../protocol/channel.ts';
import { type Message, MessageError } from '../../../protocol/message.ts';
import type { StdioServer } from '../../definition.ts';
import type { Caller } from '../caller.ts';
import { failCall, type PendingCalls, questionCarriers, settleCall } from '../relay/pending-calls.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { httpStatusFor, toClientResponse } from '../relay/towards-client.ts';
import { tooDenseError, unreadableError } from '../upstream-errors.ts';
import type { OwnRequests } from './own-requests.ts';
import type { DroppedMessageCounter } from './record-output.ts';

/** The time that a message of the server's own waits for a client to hear it. */
const earlyMs = 3000;
/** The same for a modern client. It has no stream that opens by itself, and its first call may come later. */
const bridgedEarlyMs = 30_000;
const maxEarlyPushes = 8;
const headBytes = 1024;
const serverInitiated =
  /^\s*\{\s*(?:"(?:jsonrpc|id)"\s*:\s*(?:"[^"\\]{0,256}"|\d{1,15})\s*,\s*){0,2}"(?:method|params)"\s*:/;

interface IncomingOptions {
  readonly server: StdioServer;
  readonly era: Era;
  readonly pending: PendingCalls;
  readonly ownRequests: OwnRequests;
  readonly callers: ReadonlySet<Caller>;
  readonly dropped: DroppedMessageCounter;
  readonly earlyPushes: EarlyPushes;
  readonly notificationsPerSecond: number;
  /** Called before a call is settled with the answer of its server. */
  onAnswer(): void;
  /** Passes a request or notification of the server on. */
  forward(message: Message): void;
}

/** Reads the messages that a process writes: settles the calls they answer, and forwards the others. */
export function createIncoming(options: IncomingOptions) {
  const { server, era, pending, ownRequests, callers, dropped, earlyPushes, forward } = options;
  const rate = createRateLimit(options.notificationsPerSecond);

  /** Fails the call that an unreadable line answers, so that it need not wait for its timeout. */
  function failUnreadable(line: Buffer): void {
    const head = line.subarray(0, headBytes);
    const id = isServerInitiated(head) ? undefined : findOversizedId(head, line.subarray(-headBytes));
    const call = id === undefined ? undefined : pending.take(id);
    if (call !== undefined) failCall(call, unreadableError(server.name));
  }

  /** Fails the call that an oversized line answers; all calls where that cannot be told. */
  function onTooLong(head: Buffer, tail: Buffer, error = new AmbitError('UPSTREAM_TOO_LARGE')): void {
    if (isServerInitiated(head)) {
      dropped.add('longer than the limit');
      return;
    }
    const id = findOversizedId(head, tail);
    ownRequests.fail(error, id);
    if (id !== undefined) pending.take(id)?.fail(error);
    else for (const each of pending.drain()) each.fail(error);
  }

  function settleAnswer(message: Message): void {
    const id = Number(message.id);
    if (ownRequests.takeAnswer(id, message)) return;
    const call = pending.take(id);
    if (call === undefined) {
      dropped.add('an answer without a matching request');
      return;
    }
    options.onAnswer();
    settleCall(server, call, message, () => ({
      kind: 'message',
      bytes: toClientResponse(message, call, call.binding),
      status: era === 'modern' ? httpStatusFor(message) : 200,
    }));
  }

  function receive(message: Message): void {
    if (message.kind === 'response') settleAnswer(message);
    else if (!rate.admit()) dropped.add('too many notifications');
    else if (era === 'modern' || canAnswer(callers, pending)) forward(message);
    else if (!earlyPushes.hold(message, callers.size > 0 ? earlyMs : bridgedEarlyMs)) forward(message);
  }

  return {
    onTooLong,
    /** False when the line is no message. */
    onLine(line: Buffer): boolean {
      try {
        receive(readServerMessage(line));
        return true;
      } catch (error) {
        if (error instanceof MessageError && error.isTooDense) {
          onTooLong(line.subarray(0, headBytes), line.subarray(-headBytes), tooDenseError(server.name, error));
        } else if (pending.size() > 0 && isUnreadableMessage(error)) failUnreadable(line);
        dropped.add('not a message');
        return false;
      }
    },
  };
}

/** Questions that a server asks before any client can answer. */
export interface EarlyPushes {
  /** False when the message must not wait: it is no question, or too many wait already. */
  hold(message: Message, timeoutMs: number): boolean;
  isEmpty(): boolean;
  releaseAll(): void;
  clear(): void;
}

/** Clients over HTTP open their stream a moment after the handshake, and some servers ask for roots before that. */
export function createEarlyPushes(forward: (message: Message) => void): EarlyPushes {
  const waiting = new Map<Message, NodeJS.Timeout>();

  function release(message: Message): void {
    clearTimeout(waiting.get(message));
    if (waiting.delete(message)) forward(message);
  }

  return {
    hold(message, timeoutMs) {
      if (message.kind !== 'request' || message.method === 'ping' || waiting.size >= maxEarlyPushes) return false;
      waiting.set(message, setTimeout(() => release(message), timeoutMs).unref());
      return true;
    },
    isEmpty: () => waiting.size === 0,
    releaseAll() {
      for (const message of waiting.keys()) release(message);
    },
    clear() {
      for (const timer of waiting.values()) clearTimeout(timer);
      waiting.clear();
    },
  };
}

/** Whether a client is there to answer a question of the server. */
export function canAnswer(callers: ReadonlySet<Caller>, pending: PendingCalls): boolean {
  for (const { stream, openChannels } of callers) {
    if (stream?.isGone() === false || [...openChannels].some((channel) => !channel.isGone())) return true;
  }
  // Modern clients behind a bridge are no callers. They are asked in the answer to a call that can carry a question.
  const carriesQuestion = (method: string) => questionCarriers.has(method) || method === 'tasks/result';
  return callers.size === 0 && pending.findYoungest((call) => carriesQuestion(call.method)) !== undefined;
}

/**
 * Finds the call that an oversized answer belongs to, from the first and last bytes of its line. Known implementations
 * write the id at one of the ends. Undefined when it is at neither.
 */
function findOversizedId(head: Buffer, tail: Buffer): number | undefined {
  const front = /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,/.exec(head.toString('latin1'));
  if (front !== null) return Number(front[1]);
  const back = /,\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/.exec(tail.toString('latin1'));
  return back === null ? undefined : Number(back[1]);
}

/** True for a notification or a request of the server: it answers no call. */
function isServerInitiated(head: Buffer): boolean {
  return serverInitiated.test(head.toString('latin1'));
}
