import type { Message } from '../../../protocol/message.ts';
import type { Caller } from '../caller.ts';
import { type PendingCalls, questionCarriers } from '../relay/pending-calls.ts';

/** How long what a server says by itself waits for somebody to hear it. */
export const earlyMs = 3000;
/** A modern client has no stream that opens by itself: its first call may come a while later. */
export const bridgedEarlyMs = 30_000;

const maxEarlyPushes = 8;

/**
 * Clients over HTTP open their stream a moment after the handshake, and some servers ask for roots at once: what comes
 * before anybody can be asked waits a little.
 */
export function createEarlyPushes(say: (message: Message) => void) {
  const waiting = new Map<Message, NodeJS.Timeout>();

  function release(message: Message): void {
    clearTimeout(waiting.get(message));
    if (waiting.delete(message)) say(message);
  }

  return {
    /** False when it cannot wait: what nobody can be kept waiting for, or one too many. */
    take(message: Message, patienceMs: number): boolean {
      if (message.kind !== 'request' || message.method === 'ping' || waiting.size >= maxEarlyPushes) return false;
      waiting.set(message, setTimeout(() => release(message), patienceMs).unref());
      return true;
    },
    any: () => waiting.size > 0,
    releaseAll(): void {
      for (const message of waiting.keys()) release(message);
    },
    drop(): void {
      for (const timer of waiting.values()) clearTimeout(timer);
      waiting.clear();
    },
  };
}

/** Whether somebody is there to answer what a server asks. */
export function canAnswer(callers: ReadonlySet<Caller>, pending: PendingCalls): boolean {
  for (const { stream, underWay } of callers) {
    if (stream?.isGone() === false || [...underWay].some((channel) => !channel.isGone())) return true;
  }
  // Modern clients behind a bridge are no callers: they are asked in the answer to a call that can carry a question.
  return callers.size === 0 && pending.youngest((call) => questionCarriers.has(call.method)) !== undefined;
}
