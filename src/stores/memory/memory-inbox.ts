import { checkId, checkMessage, checkMessageList } from '../checks.ts';
import type { ChangeFeed } from '../feed.ts';
import { maxMessagePageBytes, paceMessage, type SessionInboxes, type StoredMessage } from '../inbox.ts';
import type { MemorySessions } from './memory-sessions.ts';

export function createMemoryInboxes(
  sessions: Pick<MemorySessions, 'findLive'> & { now(): number },
  feed: ChangeFeed,
): SessionInboxes {
  return {
    async send(message, limits) {
      checkMessage(message, limits);
      const sender = message.from === null ? undefined : sessions.findLive(message.from);
      if (sender !== undefined && 'outcome' in sender) return { outcome: 'sender-gone' };
      const recipient = sessions.findLive(message.to);
      if ('outcome' in recipient) return recipient;
      const pace = sender && paceMessage(sender.messagePaceUs, limits, sessions.now());
      if (pace !== undefined && 'retryAfterMs' in pace) return { outcome: 'paced', ...pace };
      const { inbox } = recipient;
      if (inbox.length >= limits.messages) return { outcome: 'full', limit: 'messages' };
      const bytes = inbox.reduce((sum, { text }) => sum + Buffer.byteLength(text), Buffer.byteLength(message.text));
      if (bytes > limits.bytes) return { outcome: 'full', limit: 'bytes' };
      if (sender !== undefined && pace !== undefined) sender.messagePaceUs = pace.paceUs;
      recipient.lastMessage++;
      inbox.push({ number: recipient.lastMessage, text: message.text });
      feed.publish({ kind: 'message', id: recipient.id, here: true });
      return { outcome: 'sent', number: recipient.lastMessage };
    },

    async list(id, options = {}) {
      checkMessageList(id, options);
      const { after = 0, limit = 100 } = options;
      const held = sessions.findLive(id);
      if ('outcome' in held) return [];
      const page: StoredMessage[] = [];
      let bytes = 0;
      for (const message of held.inbox) {
        if (message.number <= after) continue;
        if (page.length === limit || bytes >= maxMessagePageBytes) break;
        page.push({ ...message });
        bytes += Buffer.byteLength(message.text);
      }
      return page;
    },

    async acknowledge(id, upTo) {
      checkId(id);
      checkMessageList(id, { after: upTo });
      const held = sessions.findLive(id);
      if ('outcome' in held) return 0;
      const first = held.inbox.findIndex(({ number }) => number > upTo);
      return held.inbox.splice(0, first === -1 ? held.inbox.length : first).length;
    },
  };
}
