import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { queueConnections } from '../../../src/entrances/http/connections.ts';
import { openRawSocket } from '../../journeys/hostile/raw-socket.ts';

describe('S7: new connections', () => {
  let http: Server;
  /** The turn of the event loop in which each request was served. */
  let turns: number[];
  let turn: number;
  let isOver: boolean;

  beforeEach(async () => {
    [turns, turn, isOver] = [[], 0, false];
    http = createServer((request, response) => {
      turns.push(turn);
      request.resume();
      request.on('end', () => response.end(`${request.method} ${request.url}`));
    });
    queueConnections(http, 60_000);
    http.listen(0, '127.0.0.1');
    await once(http, 'listening');
    const count = () => {
      turn++;
      if (!isOver) setImmediate(count);
    };
    count();
  });
  afterEach(() => {
    isOver = true;
    http.closeAllConnections();
    http.close();
  });

  const open = (server = http) => openRawSocket(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

  test('are served one in a turn, even when all of them complete their first request at once', async () => {
    const wires = await Promise.all(Array.from({ length: 40 }, () => open()));
    // Line breaks in front of a request are skipped, so they are no head.
    for (const wire of wires) await wire.say(`\r\n\r\n${get('/a').slice(0, -1)}`);
    expect(turns).toEqual([]);
    await Promise.all(wires.map((wire) => wire.say('\n')));
    for (const wire of wires) await wire.hears(/GET \/a/);
    expect(new Set(turns).size).toBe(40);
    // A connection that is known does not wait: its next request is read in the turn in which it comes.
    const [known] = wires;
    await known?.say(get('/b') + get('/c'));
    await known?.hears(/GET \/b[\s\S]*GET \/c/);
    expect(new Set(turns).size).toBe(41);
    for (const wire of wires) wire.reset();
  });

  test('may break at any time', async () => {
    for (let round = 0; round < 20; round++) {
      const wires = await Promise.all(Array.from({ length: 10 }, () => open()));
      await Promise.all(wires.map((wire) => wire.say(get('/a'))));
      for (const wire of wires) wire.reset();
    }
    const after = await open();
    await after.say(get('/after'));
    await after.hears(/GET \/after/);
    after.reset();
  });

  test('lose nothing of what they sent before their turn', async () => {
    const wire = await open();
    const body = 'x'.repeat(100_000);
    await wire.say(`POST /long HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}${get('/next')}`);
    await wire.hears(/POST \/long[\s\S]*GET \/next/);
    wire.reset();
  });

  test('that send no head are closed in time; what is no HTTP is refused at once', async () => {
    const impatient = createServer();
    queueConnections(impatient, 100);
    impatient.listen(0, '127.0.0.1');
    await once(impatient, 'listening');
    const refuse = (error: NodeJS.ErrnoException, socket: Duplex) => socket.end(`refused: ${error.code}`);
    for (const server of [http, impatient]) server.on('clientError', refuse);
    const [slow, tls, ssh, long] = [await open(impatient), await open(), await open(), await open()];
    await slow.say('GET / HTTP/1.1\r\nhost: ');
    await tls.say('\u0016\u0003\u0001');
    await ssh.say('SSH-2.0-OpenSSH_9.2\r\n');
    await long.say(`GET / HTTP/1.1\r\nx: ${'y'.repeat(20_000)}`);
    expect(await tls.untilClosed()).toBe('refused: HPE_INVALID_METHOD');
    expect(await ssh.untilClosed()).toBe('refused: HPE_INVALID_METHOD');
    expect(await long.untilClosed()).toBe('refused: HPE_HEADER_OVERFLOW');
    expect(await slow.untilClosed()).toBe('refused: ERR_HTTP_REQUEST_TIMEOUT');
    impatient.close();
  });
});
