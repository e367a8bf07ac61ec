import { randomBytes } from 'node:crypto';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { MessageSent, StoredMessage } from '../../stores/inbox.ts';
import type { SessionRecord } from '../../stores/record.ts';
import type { SessionStore } from '../../stores/store.ts';
import { assertNoImitation } from '../check-fields.ts';
import { sessionGoneError } from '../session.ts';
import type { ChangeWaiter } from './wait-for-change.ts';

/** Limits of messages between sessions. */
export type MessageSettings = Config['sessions']['messages'];

export const defaultMessageSettings: MessageSettings = { maxBytes: 65_536, maxPerMinute: 120, maxUnread: 1000 };

/** A session as the others see it in what it sent or wrote. */
export interface SessionAuthor {
  readonly sessionId: string;
  readonly name: string | null;
  readonly agentId: string | null;
  readonly trustLevel: TrustLevel;
}

/** The operator as the sender of a message. Only this sender has no id of a session, so no session can look like it. */
export interface OperatorSender {
  readonly sessionId: null;
  readonly name: 'operator';
  readonly agentId: null;
  readonly trustLevel: null;
}

export const operatorSender: OperatorSender = { sessionId: null, name: 'operator', agentId: null, trustLevel: null };

/** A message in the inbox of a session. */
export interface SessionMessage {
  readonly id: string;
  readonly at: string;
  readonly from: SessionAuthor | OperatorSender;
  readonly text: string;
  readonly replyTo: string | null;
}

export interface InboxPage {
  readonly messages: readonly SessionMessage[];
  /** The id of the last message, if there are more after it. */
  readonly next: string | null;
}

export interface ReadInboxOptions {
  /** Only messages after the one with this id. */
  readonly after?: string | undefined;
  /** Deletes the message with this id and all before it, first. */
  readonly acknowledge?: string | undefined;
  /** Waits so long for a message if there is none. */
  readonly waitSeconds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onWait?: (() => void) | undefined;
}

/** Messages to sessions. The caller has decided that the sender may message the recipient. */
export interface Messages {
  /** Sends a message and returns its id. */
  send(message: {
    /** Null for the operator, who has no limit of messages per minute. */
    readonly from: SessionRecord | null;
    readonly to: Pick<SessionRecord, 'id'>;
    readonly text: string;
    readonly replyTo?: string | undefined;
  }): Promise<string>;
  read(session: Pick<SessionRecord, 'id' | 'userId'>, options?: ReadInboxOptions): Promise<InboxPage>;
}

/** An inbox holds at most so many bytes, which a store and a model can carry. */
const maxInboxBytes = 4_194_304;
const pageSize = 100;
const messageId = /^([1-9]\d{0,14})-([0-9a-f]{16})$/;

export function createMessages(store: SessionStore, waiter: ChangeWaiter, settings: () => MessageSettings): Messages {
  /** Deletes messages up to this one. One that is not there any more was acknowledged before. */
  async function acknowledge(id: string, upTo: string): Promise<void> {
    const number = readNumber(upTo, 'acknowledge');
    const [found] = await store.inboxes.list(id, { after: number - 1, limit: 1 });
    if (found?.number !== number) return;
    if (parseMessage(found).id !== upTo) throw unknownMessageError('acknowledge');
    await store.inboxes.acknowledge(id, number);
  }

  async function readPage(id: string, after: number): Promise<InboxPage> {
    const stored = await store.inboxes.list(id, { after, limit: pageSize + 1 });
    const messages = stored.slice(0, pageSize).map(parseMessage);
    const last = messages.at(-1);
    if (last === undefined) {
      // Of a session that is gone, there are no messages either.
      const remains = await store.remains(id);
      if (remains !== undefined) throw sessionGoneError(remains.reason);
      return { messages, next: null };
    }
    const number = readNumber(last.id, 'after');
    // A page of long messages ends early, so only another look tells whether there are more.
    const [more] = stored.length > pageSize ? stored : await store.inboxes.list(id, { after: number, limit: 1 });
    return { messages, next: more === undefined ? null : last.id };
  }

  return {
    async send({ from, to, text, replyTo }) {
      const { maxBytes, maxPerMinute, maxUnread } = settings();
      assertText(text, maxBytes);
      if (replyTo !== undefined) readNumber(replyTo, 'replyTo');
      const suffix = randomBytes(8).toString('hex');
      const sender = from === null ? operatorSender : authorOf(from);
      const stored = { suffix, at: new Date().toISOString(), from: sender, text, replyTo: replyTo ?? null };
      const limits = { perMinute: maxPerMinute, messages: maxUnread, bytes: Math.max(maxInboxBytes, maxBytes * 2) };
      const sent = await store.inboxes.send(
        { from: from?.id ?? null, to: to.id, text: JSON.stringify(stored) },
        limits,
      );
      if (sent.outcome !== 'sent') throw notSentError(sent, maxPerMinute);
      return `${sent.number}-${suffix}`;
    },

    async read(session, { after, acknowledge: upTo, waitSeconds = 0, signal, onWait } = {}) {
      const { id } = session;
      if (upTo !== undefined) await acknowledge(id, upTo);
      const from = after === undefined ? 0 : readNumber(after, 'after');
      return waiter.readUntil({
        by: session,
        read: () => readPage(id, from),
        isDone: ({ messages }) => messages.length > 0,
        concerns: (change) => (change.kind === 'message' || change.kind === 'ended') && change.id === id,
        seconds: waitSeconds,
        signal,
        onWait,
      });
    },
  };
}

export function authorOf({ id, name, agentId, trustLevel }: SessionRecord): SessionAuthor {
  return { sessionId: id, name, agentId, trustLevel };
}

function parseMessage({ number, text }: StoredMessage): SessionMessage {
  const { suffix, ...rest } = JSON.parse(text) as Omit<SessionMessage, 'id'> & { readonly suffix: string };
  return { id: `${number}-${suffix}`, ...rest };
}

function readNumber(id: string, argument: string): number {
  const match = messageId.exec(id);
  if (match === null) throw unknownMessageError(argument);
  return Number(match[1]);
}

function unknownMessageError(argument: string): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: `"${argument}" is not the id of a message in this inbox.`,
    hint: 'Pass the id of a message from session_inbox unchanged.',
  });
}

function assertText(text: string, maxBytes: number): void {
  const bytes = Buffer.byteLength(text);
  if (text === '') throw new AmbitError('REQUEST_INVALID', { what: 'The message is empty.' });
  if (/\p{Surrogate}/u.test(text)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The message is not well-formed Unicode text.' });
  }
  assertNoImitation('message', text);
  if (bytes <= maxBytes) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The message has ${bytes} bytes; at most ${maxBytes} are allowed.`,
    hint: 'Send a shorter message: write long texts to a file of the workspace, and send its path.',
    rule: 'sessions.messages.maxBytes',
  });
}

function notSentError(sent: Exclude<MessageSent, { outcome: 'sent' }>, maxPerMinute: number): AmbitError {
  if (sent.outcome === 'full') {
    return new AmbitError('INBOX_FULL', {
      ...(sent.limit === 'messages' ? { rule: 'sessions.messages.maxUnread' } : {}),
      retryAfterMs: 5000,
    });
  }
  if (sent.outcome === 'paced') {
    return new AmbitError('QUOTA_EXCEEDED', {
      what: `The session has reached its limit of ${formatCount(maxPerMinute, 'message')} per minute.`,
      hint: `Try again in ${Math.ceil(sent.retryAfterMs / 1000)} s.`,
      rule: 'sessions.messages.maxPerMinute',
      retryAfterMs: sent.retryAfterMs,
    });
  }
  if (sent.outcome === 'sender-gone') return sessionGoneError('ended');
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'The session that the message is for has ended.',
    hint: 'Find your sessions with session_search.',
  });
}
