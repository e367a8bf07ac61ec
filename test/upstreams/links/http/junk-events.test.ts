import { once } from 'node:events';
import { createServer, get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { linesPerTurn } from '../../../../src/protocol/lines/read-lines.ts';
import { readAnswer } from '../../../../src/upstreams/links/http/read-answer.ts';

/** The answer of a server that writes these bytes as long as they are read. */
async function flood(bytes: string): Promise<IncomingMessage & AsyncDisposable> {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = Buffer.from(bytes.repeat(5000));
    const pump = () => {
      while (response.write(chunk));
    };
    response.on('drain', pump);
    pump();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const [response] = (await once(get({ port: (server.address() as AddressInfo).port }), 'response')) as [
    IncomingMessage,
  ];
  return Object.assign(response, {
    async [Symbol.asyncDispose]() {
      response.destroy();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  });
}

test.each(['x', '{', '{"jsonrpc":"2.0"}'])(
  'S7: a flood of events with %s in them is cut off, and leaves a turn to others after each few',
  async (data) => {
    await using response = await flood(`id: 1\ndata: ${data}\n\n`);
    let inTurn = 0;
    let most = 0;
    let over = false;
    const reading = readAnswer(response, {
      server: 'it',
      maxBytes: 1 << 20,
      onMessage: () => false,
      onEventId() {
        most = Math.max(most, ++inTurn);
      },
    }).finally(() => {
      over = true;
    });
    const turns = (async () => {
      for (; !over; inTurn = 0) await new Promise(setImmediate);
    })();
    await expect(reading).rejects.toMatchObject({
      code: 'UPSTREAM_FAILED',
      message: expect.stringContaining('too many events that are not MCP messages'),
    });
    await turns;
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(2 * linesPerTurn);
  },
);
