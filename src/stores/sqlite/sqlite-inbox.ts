import { checkMessage, checkMessageList } from '../checks.ts';
import {
  type MessageSent,
  maxMessagePageBytes,
  paceMessage,
  type SessionInboxes,
  type StoredMessage,
} from '../inbox.ts';
import type { SqliteConnection } from './connection.ts';
import type { Database } from './driver.ts';
import { findLiveRow, recordChange } from './session-rows.ts';

/** Writes, and publishes the changes at once. */
type NotifyingWrite = <T>(work: (database: Database) => T) => Promise<T>;

export function createSqliteInboxes(
  connection: SqliteConnection,
  writeAndNotify: NotifyingWrite,
  now: () => number,
): SessionInboxes {
  return {
    async send(message, limits) {
      checkMessage(message, limits);
      const { from, to, text } = message;
      return writeAndNotify((database): MessageSent => {
        const at = now();
        const sender = from === null ? undefined : findLiveRow(database, from, at);
        if (sender !== undefined && 'outcome' in sender) return { outcome: 'sender-gone' };
        const recipient = findLiveRow(database, to, at);
        if ('outcome' in recipient) return recipient;
        const pace = sender && paceMessage(sender.message_pace_us, limits, at);
        if (pace !== undefined && 'retryAfterMs' in pace) return { outcome: 'paced', ...pace };
        const held = database
          .prepare('SELECT count(*) AS messages, coalesce(sum(bytes), 0) AS bytes FROM messages WHERE session_id = ?')
          .get(to) as { messages: number; bytes: number };
        const bytes = Buffer.byteLength(text);
        if (held.messages >= limits.messages) return { outcome: 'full', limit: 'messages' };
        if (held.bytes + bytes > limits.bytes) return { outcome: 'full', limit: 'bytes' };
        if (pace !== undefined)
          database.prepare('UPDATE sessions SET message_pace_us = ? WHERE id = ?').run(pace.paceUs, from);
        const { number } = database
          .prepare('UPDATE sessions SET last_message = last_message + 1 WHERE id = ? RETURNING last_message AS number')
          .get(to) as { number: number };
        database
          .prepare('INSERT INTO messages (session_id, number, bytes, text) VALUES (?, ?, ?, ?)')
          .run(to, number, bytes, text);
        recordChange(database, { kind: 'message', id: to, here: true }, at);
        return { outcome: 'sent', number };
      });
    },

    async list(id, options = {}) {
      checkMessageList(id, options);
      const { after = 0, limit = 100 } = options;
      return connection.read((database) => {
        if ('outcome' in findLiveRow(database, id, now())) return [];
        // The sizes come first, so that only texts that fit on the page are read.
        const sizes = database
          .prepare('SELECT number, bytes FROM messages WHERE session_id = ? AND number > ? ORDER BY number LIMIT ?')
          .all(id, after, limit) as unknown as { number: number; bytes: number }[];
        let bytes = 0;
        let last = after;
        for (const each of sizes) {
          if (bytes >= maxMessagePageBytes) break;
          bytes += each.bytes;
          last = each.number;
        }
        const rows = database
          .prepare(
            'SELECT number, text FROM messages WHERE session_id = ? AND number > ? AND number <= ? ORDER BY number',
          )
          .all(id, after, last) as unknown as StoredMessage[];
        return rows.map(({ number, text }) => ({ number, text }));
      });
    },

    async acknowledge(id, upTo) {
      checkMessageList(id, { after: upTo });
      return connection.write((database) =>
        'outcome' in findLiveRow(database, id, now())
          ? 0
          : database.prepare('DELETE FROM messages WHERE session_id = ? AND number <= ?').run(id, upTo),
      );
    },
  };
}
