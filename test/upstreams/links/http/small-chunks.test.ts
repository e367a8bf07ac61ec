import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { expect, test } from 'vitest';
import type { Message } from '../../../../src/protocol/message.ts';
import { readAnswer } from '../../../../src/upstreams/links/http/read-answer.ts';

const answer = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { text: 'x'.repeat(50_000) } });

/** What is read when each byte comes as a chunk of its own, in a buffer that has another content afterwards. */
async function readBytewise(type: string, body: string): Promise<Message[]> {
  const response = Object.assign(new EventEmitter(), { headers: { 'content-type': type }, statusCode: 200 });
  const messages: Message[] = [];
  const reading = readAnswer(response as unknown as IncomingMessage, {
    server: 'it',
    maxBytes: 1 << 20,
    onMessage: (message) => messages.push(message) < 0,
  });
  const chunk = Buffer.alloc(1);
  for (const byte of Buffer.from(body)) {
    chunk[0] = byte;
    response.emit('data', chunk);
  }
  response.emit('end');
  await reading;
  return messages;
}

// A buffer object takes a hundred times the one byte in it, so none of them may be kept.
test.each([
  ['application/json', answer, 1],
  ['text/event-stream', `id: 7\r\ndata: ${answer}\r\n\r\ndata: ${answer}\n\n`, 2],
])('an answer in one-byte chunks is copied together (%s)', async (type, body, count) => {
  const messages = await readBytewise(type, body);
  expect(messages.map(({ bytes }) => bytes.toString())).toEqual(Array(count).fill(answer));
});
