import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { serveServerLog } from '../../../src/entrances/control/event-streams.ts';
import { createServerLogs } from '../../../src/gateway/server-activity.ts';
import { readEvents } from '../http/event-reader.ts';

/** The log of a server, and an address at which its lines are followed from the first on. */
async function followLog(sessionId: string | null = null) {
  const logs = createServerLogs({ servers: 2, lines: 10, bytes: 1 << 20 });
  const left: Promise<void>[] = [];
  const http = createServer((_, response) => {
    left.push(serveServerLog(logs, { server: 'notes', sessionId, position: 0, lines: [] }, response));
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void http.close());
  const reader = await readEvents(`http://127.0.0.1:${(http.address() as AddressInfo).port}/`, {});
  const write = (text: string, of = 'one') => logs.add('notes', { sessionId: of, pid: 7, text });
  return { logs, left, reader, write };
}

test('a reader that is too slow misses lines, is told how many, and leaves nothing behind', async () => {
  const { logs, left, reader, write } = await followLog();
  // All in one go, so that nothing can be read meanwhile.
  for (let count = 1; count <= 500; count++) write(`${count} ${'x'.repeat(4000)}`);
  await reader.hears(({ data }) => String(data['line']).startsWith('500 '));
  const { heard } = reader;
  const lines = heard.filter(({ event }) => event === 'line');
  const dropped = heard.filter(({ event }) => event === 'dropped').map(({ data }) => data['count'] as number);
  expect(dropped).toHaveLength(1);
  expect(lines.length + (dropped[0] ?? 0)).toBe(500);
  expect(lines[0]?.data).toMatchObject({ session: 'one', pid: 7 });
  reader.close();
  await left[0];
  // The next new server takes the place of one that nobody reads.
  for (const server of ['a', 'b']) logs.add(server, { sessionId: undefined, pid: 1, text: 'x' });
  expect(logs.list('notes')).toEqual([]);
});

test('a filter shows the lines of one session only', async () => {
  const { reader, write } = await followLog('one');
  write('hidden', 'two');
  write('shown', 'one-and-more');
  await reader.hears(({ event }) => event === 'line');
  expect(reader.heard.map(({ data }) => data['line'])).toEqual(['shown']);
  reader.close();
});
