import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { readBody } from '../../../src/entrances/http/read-body.ts';

// A buffer object takes a hundred times the one byte in it, so none of them may be kept.
test('a body in one-byte chunks is copied together', async () => {
  const request = Object.assign(new EventEmitter(), { headers: {} });
  const text = `{"a":"${'x'.repeat(50_000)}"}`;
  const body = readBody(request as unknown as IncomingMessage, {} as ServerResponse, {
    maxBytes: 1 << 20,
    onGone() {},
  });
  request.emit('data', Buffer.from(text.slice(0, 1)));
  const chunk = Buffer.alloc(1);
  for (const byte of Buffer.from(text.slice(1))) {
    chunk[0] = byte;
    request.emit('data', chunk);
  }
  request.emit('end');
  expect(String(await body)).toBe(text);
});
