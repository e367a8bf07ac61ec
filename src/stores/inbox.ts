import type { Gone } from './store.ts';

/**
 * Messages that sessions and the operator send, in the inbox of the session that receives them. They end with it. Sending
 * and reading does not count as use of a session.
 */
export interface SessionInboxes {
  /**
   * Appends a message, in one step: both sessions must be live, the sender within its rate, the inbox within its limits.
   * Without a sender, only the recipient and its inbox are checked. Numbers rise with each message of an inbox, so messages of one sender keep their order.
   */
  send(message: NewMessage, limits: MessageLimits): Promise<MessageSent>;
  /** Lists messages by number, the oldest first; `after` is a number. A page may hold fewer than asked for. */
  list(id: string, options?: MessageListOptions): Promise<readonly StoredMessage[]>;
  /** Deletes the message with this number and all before it, and returns how many there were. */
  acknowledge(id: string, upTo: number): Promise<number>;
}

export interface NewMessage {
  /** The id of the session that sends it; null for a message of the operator. */
  readonly from: string | null;
  /** The id of the session that receives it. */
  readonly to: string;
  readonly text: string;
}

export interface MessageLimits {
  /** Messages that a session may send per minute, and at once. */
  readonly perMinute: number;
  /** Messages in one inbox that are not acknowledged, and their bytes. */
  readonly messages: number;
  readonly bytes: number;
}

export interface StoredMessage {
  readonly number: number;
  readonly text: string;
}

export interface MessageListOptions {
  readonly after?: number;
  /** From 1 to 1000; 100 by default. */
  readonly limit?: number;
}

export type MessageSent =
  | { readonly outcome: 'sent'; readonly number: number }
  | { readonly outcome: 'full'; readonly limit: 'messages' | 'bytes' }
  /** The sender is faster than its rate. */
  | { readonly outcome: 'paced'; readonly retryAfterMs: number }
  | { readonly outcome: 'sender-gone' }
  /** The recipient is gone. */
  | Gone;

/** The most bytes of one text that a store accepts: a message of 64 KiB in JSON, with its sender. */
export const maxMessageBytes = 524_288;

/** A page ends when its texts reach this size. */
export const maxMessagePageBytes = 1_048_576;

/** Returns the pace of a sender after one more message, or the time to wait. Both in whole microseconds. */
export function paceMessage(
  paceUs: number,
  { perMinute }: Pick<MessageLimits, 'perMinute'>,
  now: number,
): { readonly paceUs: number } | { readonly retryAfterMs: number } {
  const step = Math.floor(60_000_000 / perMinute);
  const next = Math.max(paceUs, now * 1000) + step;
  const waitMs = Math.ceil((next - perMinute * step - now * 1000) / 1000);
  return waitMs > 0 ? { retryAfterMs: waitMs } : { paceUs: next };
}
