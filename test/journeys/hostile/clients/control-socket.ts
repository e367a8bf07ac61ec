import { request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { expectDiscreet, type WatchedAmbit } from '../start-watched-ambit.ts';
import { variantsOf } from './wrong-types.ts';

export function testControlSocket(given: () => WatchedAmbit): void {
  let ambit: WatchedAmbit;
  let socketPath: string;

  beforeAll(() => {
    ambit = given();
    socketPath = join(ambit.dataDir, 'control.sock');
  });
  interface Told {
    readonly status: number;
    readonly text: string;
  }

  function ask(method: string, path: string, body: string | Buffer = ''): Promise<Told> {
    return new Promise((resolve, reject) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      const asking = request({ socketPath, method, path, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          expectDiscreet(ambit, text);
          resolve({ status: response.statusCode ?? 0, text });
        });
      });
      asking.on('error', reject);
      asking.end(body);
    });
  }

  async function sessions(): Promise<number> {
    return (JSON.parse((await ask('GET', '/api/v1/sessions')).text) as { sessions: unknown[] }).sessions.length;
  }

  test('a session asked for with every value of every wrong type', async () => {
    const draft = { name: 'n', userId: 'u', agentId: 'a', trustLevel: 'direct', ttlSeconds: 60 };
    for (const { what, text } of variantsOf(draft)) {
      const told = await ask('POST', '/api/v1/sessions', text);
      if (told.status === 201) {
        const { id } = JSON.parse(told.text) as { id: string };
        expect((await ask('DELETE', `/api/v1/sessions/${id}`)).status, what).toBe(200);
      } else expect([400, 403, 409], `${what}: ${told.text}`).toContain(told.status);
    }
  });

  test.each([
    ['no JSON', 'hello'],
    ['half of it', '{"userId":'],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['100,000 brackets', '['.repeat(100_000)],
    ['100,000 nested objects', `${'{"a":'.repeat(40_000)}1${'}'.repeat(40_000)}`],
    ['an array', '[]'],
    ['an unknown key', '{"__proto__":{},"constructor":1}'],
  ])('%s is 400 and opens no session', async (_what, body) => {
    const before = await sessions();
    expect((await ask('POST', '/api/v1/sessions', body)).status).toBe(400);
    expect(await sessions()).toBe(before);
  });

  test('a body over the limit is 413 and opens no session', async () => {
    const before = await sessions();
    expect((await ask('POST', '/api/v1/sessions', JSON.stringify({ name: 'x'.repeat(1 << 20) }))).status).toBe(413);
    expect(await sessions()).toBe(before);
  });

  test.each([
    ['GET', '/', 404],
    ['GET', '/api/v1/sessions/', 404],
    ['GET', '/api/v1/sessions/%', 400],
    ['GET', '/api/v1/sessions/%00', 404],
    ['GET', '/api/v1/sessions/__proto__', 404],
    ['DELETE', '/api/v1/sessions/..%2f..', 404],
    ['DELETE', '/api/v1/sessions', 405],
    ['PUT', '/api/v1/sessions', 405],
    ['PATCH', '/api/v1/sessions/x', 404],
    ['PUT', '/api/v1/sessions/x', 405],
  ])('%s %s is %i', async (method, path, status) => {
    expect((await ask(method, path)).status).toBe(status);
  });

  test('garbage, and clients that vanish, do no harm', async () => {
    for (const bytes of [
      '\0\0\0',
      'GET / HTTP/1.1\r\n',
      'POST /api/v1/sessions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{',
    ]) {
      const socket = connect(socketPath);
      await new Promise((resolve) => socket.once('connect', resolve));
      await new Promise((resolve) => socket.write(bytes, resolve));
      socket.destroy();
    }
  });
}
