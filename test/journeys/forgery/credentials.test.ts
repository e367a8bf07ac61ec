import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { mintToken } from '../../../src/identity/token.ts';
import { type Exchange, sendRaw } from '../http-exchange.ts';
import {
  bearerHeader,
  callModern,
  connectHandshake,
  modernBody,
  patience,
  readAnswer,
  readToolText,
} from '../raw-mcp-client.ts';
import type { CreatedSession } from '../start-ambit.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let live: CreatedSession;
let ended: CreatedSession;
let expired: CreatedSession;
let transportId: string;

beforeAll(async () => {
  attacked = await startRecordedGateway();
  [live, ended, expired] = await Promise.all([attacked.open(), attacked.open(), attacked.open({ ttlSeconds: 1 })]);
  ({ transportId } = await connectHandshake(attacked.pipe, live.token));
  await connectHandshake(attacked.pipe, ended.token);
  await attacked.end(ended.id);
  await vi.waitFor(async () => expect(await attacked.sessions()).not.toContain(expired.id), patience);
});

afterAll(() => attacked?.stop());

const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** Every way to knock at the door. */
const knocks: Record<string, (authorization: Record<string, string>) => Promise<Exchange>> = {
  'modern tools/call': (auth) =>
    sendRaw(attacked.pipe, {
      headers: {
        ...json,
        ...auth,
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'echo',
      },
      body: modernBody({ params: '"name":"echo","arguments":{}' }),
    }),
  'modern tools/list': (auth) =>
    sendRaw(attacked.web, {
      headers: { ...json, ...auth, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
      body: modernBody({ method: 'tools/list' }),
    }),
  initialize: (auth) =>
    sendRaw(attacked.pipe, {
      headers: { ...json, ...auth },
      body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}',
    }),
  'handshake tools/call': (auth) =>
    onTransport(auth, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'),
  'a notification': (auth) => onTransport(auth, '{"jsonrpc":"2.0","method":"notifications/x"}'),
  'an answer': (auth) => onTransport(auth, '{"jsonrpc":"2.0","id":1,"result":{}}'),
  GET: (auth) =>
    sendRaw(attacked.pipe, {
      method: 'GET',
      headers: { ...auth, accept: 'text/event-stream', 'mcp-session-id': transportId },
    }),
  DELETE: (auth) => sendRaw(attacked.pipe, { method: 'DELETE', headers: { ...auth, 'mcp-session-id': transportId } }),
  'an unknown server': (auth) =>
    sendRaw(attacked.ambit.mcp('nowhere'), {
      headers: { ...json, ...auth, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' },
      body: modernBody({ method: 'tools/list' }),
    }),
};

function onTransport(auth: Record<string, string>, body: string): Promise<Exchange> {
  return sendRaw(attacked.pipe, { headers: { ...json, ...auth, 'mcp-session-id': transportId }, body });
}

async function whole(sent: Promise<Exchange>): Promise<string> {
  const got = await sent;
  const headers = Object.entries(got.headers).filter(([name]) => name !== 'date');
  return JSON.stringify([got.status, headers, await got.rest()]);
}

/** The same id, the right checksum, another secret. */
function forged({ id }: CreatedSession): string {
  return mintToken('ambs', id).token;
}

function mistyped({ token }: CreatedSession): string {
  return token.slice(0, -1) + (token.endsWith('a') ? 'b' : 'a');
}

function unsignedJwt(): string {
  const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none', typ: 'JWT' })}.${part({ sub: 'local', sessionId: live.id })}.`;
}

describe.each(Object.keys(knocks))('%s', (name) => {
  const knock = knocks[name]!;

  test('without the secret, there is one answer: 401', async () => {
    const reference = await whole(knock(bearerHeader(mintToken('ambs', 'f'.repeat(32)).token)));
    expect(JSON.parse(reference)[0]).toBe(401);
    expect(reference).toContain('UNAUTHENTICATED');
    const tokens = {
      'wrong secret': forged(live),
      'wrong secret of an ended session': forged(ended),
      'wrong secret of an expired session': forged(expired),
      'wrong checksum': mistyped(live),
      'ended, wrong checksum': mistyped(ended),
      'the id alone': live.id,
      'the id of another kind': live.token.replace('ambs_', 'ambk_'),
      'upper case': live.token.toUpperCase(),
      'with something after it': `${live.token}x`,
      'two of them': `${live.token},${live.token}`,
      'an unsigned JWT': unsignedJwt(),
      'a name of Object': 'constructor',
    };
    for (const [what, token] of Object.entries(tokens))
      expect(await whole(knock(bearerHeader(token))), what).toBe(reference);
    for (const authorization of [live.token, `Basic ${live.token}`, 'Bearer', `Bearer  `, `Token ${live.token}`]) {
      expect(await whole(knock({ authorization })), authorization).toBe(reference);
    }
  });

  test('without any credential: 401, and the same however one tries to be somebody', async () => {
    const reference = await whole(knock({}));
    expect(JSON.parse(reference)[0]).toBe(401);
    expect(reference).toContain('UNAUTHENTICATED');
    const claims = {
      'x-forwarded-user': 'local',
      'x-user-id': 'local',
      'x-mcp-userid': 'local',
      'ambit-session-id': live.id,
      cookie: `session=${live.token}; authorization=${live.token}`,
      'proxy-authorization': `Bearer ${live.token}`,
      'x-authorization': `Bearer ${live.token}`,
      'txn-token': live.token,
      'x-forwarded-for': '127.0.0.1',
    };
    expect(await whole(knock(claims))).toBe(reference);
  });
});

describe('with the secret', () => {
  test.each([
    ['ended', 'SESSION_ENDED'],
    ['expired', 'SESSION_EXPIRED'],
  ] as const)('of a session that has %s, the reason is told', async (which, code) => {
    const { token } = { ended, expired }[which];
    for (const name of ['modern tools/call', 'handshake tools/call']) {
      const sent = await knocks[name]!(bearerHeader(token));
      expect(sent.status).toBe(200);
      const { result } = await readAnswer(sent);
      expect(result).toMatchObject({ isError: true, _meta: { 'ambit/error': { code, hint: expect.any(String) } } });
      expect(result?.content?.[0]?.text).toMatch(new RegExp(`^${code}: `));
      expect(result).not.toHaveProperty('structuredContent');
      expect(result?.resultType).toBe(name.startsWith('modern') ? 'complete' : undefined);
    }
    for (const name of ['modern tools/list', 'initialize', 'GET', 'DELETE']) {
      const { error } = await readAnswer(knocks[name]!(bearerHeader(token)));
      expect(error).toMatchObject({ data: { code } });
      expect(error?.code).toBeGreaterThan(-32000);
    }
  });

  test('the session works, so that the refusals above mean something', async () => {
    expect(await readToolText(callModern(attacked.pipe, live.token, 'echo', '{"marker":"alive"}'))).toContain('alive');
  });
});

test('a server that a session may not use looks like one that does not exist', async () => {
  const { token } = await attacked.open({ trustLevel: 'sandboxed' });
  const answers = await Promise.all(
    ['web', 'nowhere'].map(async (server) => {
      const sent = await callModern(attacked.ambit.mcp(server), token, 'echo', '{}');
      return { status: sent.status, body: (await sent.rest()).map((text) => text.replace(`\\"${server}\\"`, 'NAME')) };
    }),
  );
  expect(answers[0]).toEqual(answers[1]);
  expect(answers[0]?.body[0]).toContain('SERVER_NOT_AVAILABLE');
});

test('no token and no secret is written down', async () => {
  const folder = join(attacked.ambit.dataDir, 'journal');
  const written = (
    await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name), 'utf8')))
  ).join();
  expect(written).toContain(live.id);
  for (const { token } of [live, ended, expired]) expect(written).not.toContain(token.split('_')[2]);
  expect(written).not.toContain('ambs_');
});

test('requests without a credential open no session and start nothing', async () => {
  const before = await attacked.sessions();
  await Promise.all(Array.from({ length: 30 }, () => knocks['initialize']!({})));
  expect(await attacked.sessions()).toHaveLength(before.length);
});

test('ids cannot be guessed: 128 random bits, no two alike', async () => {
  const sessions = await Promise.all(Array.from({ length: 20 }, () => attacked.open()));
  const clients = await Promise.all(Array.from({ length: 5 }, () => connectHandshake(attacked.pipe, live.token)));
  const ids = [...sessions.map(({ id }) => id), ...clients.map((client) => client.transportId)];
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32,}$/);
  expect(new Set(ids.map((id) => id.slice(0, 16))).size).toBe(ids.length);
});
