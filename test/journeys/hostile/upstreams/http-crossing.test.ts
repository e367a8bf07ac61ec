import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { callModern, readOutcome } from '../../json-mcp-client.ts';
import { startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import { answerCorrectly } from './start-http-upstream.ts';

/**
 * HTTP written by hand, since no HTTP library would say what this one says: after an answer, on the connection that
 * is kept for the next request, the answer once more.
 */
let server: Server;
let ambit: WatchedAmbit;
let repeats = 0;

function announced(text: string): string {
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}

function serve(socket: Socket): void {
  let unread = '';
  socket.on('error', () => {});
  socket.on('data', (chunk) => {
    unread += chunk.toString('latin1');
    for (;;) {
      const end = unread.indexOf('\r\n\r\n') + 4;
      const length = Number(/content-length: (\d+)/i.exec(unread)?.[1] ?? 0);
      if (end < 4 || unread.length < end + length) return;
      const body = unread.slice(end, end + length);
      unread = unread.slice(end + length);
      answer(socket, JSON.parse(body) as { id: number; params: { arguments?: { text?: string } } });
    }
  });
}

function answer(socket: Socket, asked: { id: number; params: { arguments?: { text?: string } } }): void {
  const text = asked.params.arguments?.text ?? '';
  socket.write(announced(answerCorrectly(asked.id, text)));
  if (!text.startsWith('secret')) return;
  repeats++;
  setTimeout(() => socket.write(announced(answerCorrectly(asked.id, text))), 3);
}

beforeAll(async () => {
  server = createServer(serve);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  ambit = await startWatchedAmbit({ servers: { stutters: { url: `http://127.0.0.1:${port}/mcp`, era: 'modern' } } });
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  server?.close();
});

test('an answer that comes again is not taken for the answer to the next request of another session', async () => {
  const url = ambit.mcp('stutters');
  for (let round = 0; round < counts(6, 60); round++) {
    const [mine, theirs] = await Promise.all([ambit.session(), ambit.session()]);
    const text = `secret ${round}`;
    expect(readOutcome(await callModern(url, mine.token, 'echo', { text }))).toBe(text);
    await new Promise((resolve) => setTimeout(resolve, 4 + round));
    expect(readOutcome(await callModern(url, theirs.token, 'echo', { text: 'other' }))).toBe('other');
  }
  expect(repeats).toBeGreaterThan(0);
});
