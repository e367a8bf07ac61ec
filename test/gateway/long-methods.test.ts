import { expect, test } from 'vitest';
import { serverMessagePipeline } from '../../src/gateway/server-message-pipeline.ts';
import type { Journal, JournalEntry } from '../../src/observability/journal/journal.ts';
import { readMessage } from '../../src/protocol/message.ts';
import type { ServerMessage } from '../../src/upstreams/links/link.ts';
import { createPendingCalls } from '../../src/upstreams/links/relay/pending-calls.ts';
import { mine } from '../upstreams/links/relay/handles.ts';

test('a method that a server makes up takes 200 characters of the journal', async () => {
  const entries: JournalEntry[] = [];
  const outward = serverMessagePipeline({ record: (entry: JournalEntry) => void entries.push(entry) } as Journal);
  for (const length of [200, 7900]) {
    await outward({
      upstream: { name: 'it', push: {} },
      link: { sessionId: 's' },
      message: readMessage(Buffer.from(`{"jsonrpc":"2.0","method":"${'m'.repeat(length)}"}`)),
      pending: createPendingCalls(),
      callers: [],
      binding: mine,
      call: undefined,
      respond() {},
    } as unknown as ServerMessage);
  }
  expect(entries.map(({ method }) => method)).toEqual(['m'.repeat(200), `${'m'.repeat(200)}…`]);
});
