import { expect, test } from 'vitest';
import type { PreparedExchange } from '../../../src/gateway/exchange.ts';
import { createToolListeners } from '../../../src/gateway/lists/announce-lists.ts';
import { readMessage } from '../../../src/protocol/message.ts';

test('a listen stream that is refused at once is forgotten', async () => {
  const listeners = createToolListeners();
  const params = '{"notifications":{"toolsListChanged":true}}';
  const message = readMessage(
    Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":${params}}`),
  );
  let told = 0;
  const channel = { owner: {}, isGone: () => false, emit: () => ++told > 0, onDrain() {}, onGone() {}, close() {} };
  const exchange = { channel, message, outgoing: message, session: { id: 's' } } as unknown as PreparedExchange;
  const refused = listeners.listen(exchange, 'notes', ({ channel: watched }) => {
    // The server has acknowledged the stream, so an announcement would reach it.
    watched.emit(Buffer.from('{}'));
    throw new Error('refused');
  });
  await expect(refused).rejects.toThrow('refused');
  const before = told;
  listeners.announce('s', ['notes']);
  expect(told).toBe(before);
});
