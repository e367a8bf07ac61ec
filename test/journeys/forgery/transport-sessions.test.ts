import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Exchange, sendRaw } from '../http-exchange.ts';
import {
  bearerHeader,
  callModern,
  connectHandshake,
  type HandshakeClient,
  patience,
  readAnswer,
  readToolText,
} from '../raw-mcp-client.ts';
import type { CreatedSession } from '../start-ambit.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const unknown = '0123456789abcdef0123456789abcdef';
let attacked: RecordedGateway;
let victim: CreatedSession;
let thief: CreatedSession;

beforeAll(async () => {
  attacked = await startRecordedGateway();
  [victim, thief] = await Promise.all([attacked.open(), attacked.open()]);
});

afterAll(() => attacked?.stop());

const attempts: Record<string, (url: string, token: string, transportId: string) => Promise<Exchange>> = {
  'a request': (...to) => post(...to, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'),
  'a list': (...to) => post(...to, '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
  'another initialize': (...to) =>
    post(
      ...to,
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}',
    ),
  'a notification': (...to) =>
    post(...to, '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"held"}}'),
  'an answer': (...to) => post(...to, '{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}'),
  GET: (url, token, transportId) =>
    sendRaw(url, {
      method: 'GET',
      headers: { ...bearerHeader(token), accept: 'text/event-stream', 'mcp-session-id': transportId },
    }),
  DELETE: (url, token, transportId) =>
    sendRaw(url, { method: 'DELETE', headers: { ...bearerHeader(token), 'mcp-session-id': transportId } }),
};

function post(url: string, token: string, transportId: string, body: string): Promise<Exchange> {
  return sendRaw(url, { headers: { ...json, ...bearerHeader(token), 'mcp-session-id': transportId }, body });
}

async function told(sent: Promise<Exchange>): Promise<unknown> {
  const got = await sent;
  const body =
    got.status === 200 && got.headers['content-type'] === 'text/event-stream' ? got.close() : await got.rest();
  return { status: got.status, headers: Object.keys(got.headers).sort(), body };
}

describe.each(['pipe', 'web'] as const)("somebody else's transport session on %s", (server) => {
  let client: HandshakeClient;
  let held: Promise<Exchange>;

  beforeAll(async () => {
    client = await connectHandshake(attacked[server], victim.token);
    held = client.call('slow', `{"key":"${server}"}`, { id: '"held"' });
  });

  test.each(Object.keys(attempts))('does not exist for %s: 404, the same as an unknown one', async (name) => {
    const attempt = attempts[name]!;
    const reference = await told(attempt(attacked[server], thief.token, unknown));
    expect(reference).toMatchObject({ status: 404 });
    expect(await told(attempt(attacked[server], thief.token, client.transportId))).toEqual(reference);
    const twice = `${client.transportId}, ${client.transportId}`;
    expect(await told(attempt(attacked[server], thief.token, twice))).toEqual(reference);
  });

  test.each(Object.keys(attempts))('does not exist for %s under another server', async (name) => {
    const attempt = attempts[name]!;
    const reference = await told(attempt(attacked.tube, victim.token, unknown));
    expect(reference).toMatchObject({ status: 404 });
    expect(await told(attempt(attacked.tube, victim.token, client.transportId))).toEqual(reference);
  });

  test('still works after all attempts', async () => {
    // Nobody told whether the call to be released has arrived yet.
    const release = () => readToolText(client.call('release', `{"key":"${server}"}`));
    await expect.poll(release, patience).toBe('released');
    expect(await readToolText(held)).toBe(`released ${server}`);
  });

  test('means nothing on a modern request, where it is ignored', async () => {
    const headers = { 'mcp-session-id': client.transportId };
    const sent = await callModern(attacked[server], thief.token, 'echo', '{"marker":"m"}', { headers });
    expect(sent.headers['mcp-session-id']).toBeUndefined();
    expect(await readToolText(sent)).toContain('"marker":"m"');
    expect(await readToolText(client.call('echo', '{}'))).not.toContain('"marker":"m"');
  });

  test('ended by its owner is gone for its owner too', async () => {
    expect((await client.leave()).status).toBe(200);
    for (const attempt of Object.values(attempts)) {
      expect(await told(attempt(attacked[server], victim.token, client.transportId))).toMatchObject({ status: 404 });
    }
  });
});

const batch = '[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]';
const versions = ['2025-11-25', '2025-03-26'] as const;

// Whether arrays may be read depends on what a transport session negotiated, which must not tell that it exists.
test.each(versions)('a batch tells nothing about a foreign transport session of %s', async (version) => {
  const client = await connectHandshake(attacked.pipe, victim.token, version);
  for (const token of [thief.token, 'nonsense']) {
    const reference = await told(post(attacked.pipe, token, unknown, batch));
    expect(await told(post(attacked.pipe, token, client.transportId, batch))).toEqual(reference);
  }
});

describe('the stream', () => {
  const changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
  const done = '{"jsonrpc":"2.0","id":$ID,"result":{}}';

  test('a second GET is refused, and the first one goes on', async () => {
    const client = await connectHandshake(attacked.pipe, victim.token);
    const stream = await client.listen();
    expect(stream.status).toBe(200);
    const second = await client.listen();
    expect(second.status).toBe(409);
    expect((await attempts['GET']!(attacked.pipe, thief.token, client.transportId)).status).toBe(404);
    await readAnswer(client.call('say', JSON.stringify({ lines: [changed, done] })));
    expect(await stream.next()).toBe(changed);
    stream.close();
  });

  test('carries nothing of other sessions, even of the same server', async () => {
    const [mine, theirs] = await Promise.all([
      connectHandshake(attacked.pipe, thief.token),
      connectHandshake(attacked.pipe, victim.token),
    ]);
    const [stream, other] = await Promise.all([mine.listen(), theirs.listen()]);
    const line = (marker: string) => changed.replace('}', `,"params":{"marker":"${marker}"}}`);
    await readAnswer(theirs.call('say', JSON.stringify({ lines: [line('theirs'), done] })));
    expect(await other.next()).toBe(line('theirs'));
    await readAnswer(mine.call('say', JSON.stringify({ lines: [line('mine'), done] })));
    expect(await stream.next()).toBe(line('mine'));
    stream.close();
    other.close();
  });
});
