import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  callModern,
  connectHandshake,
  type HandshakeClient,
  modernMeta,
  patience,
  readAnswer,
  readToolText,
  sendModern,
} from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let mine: string;
let theirs: string;

beforeAll(async () => {
  attacked = await startRecordedGateway();
  [mine, theirs] = (await Promise.all([attacked.open(), attacked.open()])).map(({ token }) => token) as [
    string,
    string,
  ];
});

afterAll(() => attacked?.stop());

/** A victim, a neighbour in the same session, and a stranger in another. */
async function threeClients(server: 'pipe' | 'web'): Promise<[HandshakeClient, HandshakeClient, HandshakeClient]> {
  const url = attacked[server];
  return [await connectHandshake(url, mine), await connectHandshake(url, mine), await connectHandshake(url, theirs)];
}

let keys = 0;
const servers = ['pipe', 'web'] as const;

/** A call that is under way: the upstream has it, and holds it until it is released. */
async function holdCall(client: HandshakeClient, id: string, meta = '') {
  const key = `key ${++keys}`;
  const answer = client.call('slow', JSON.stringify({ key }), { id, meta });
  const release = () =>
    vi.waitFor(async () => {
      expect(await readToolText(client.call('release', JSON.stringify({ key }), { id: '"release"' }))).toBe('released');
    }, patience);
  await vi.waitFor(async () => {
    const probe = await readToolText(client.call('recorded', '{}', { id: '"probe"' }));
    expect(probe).toContain(key);
  }, patience);
  return { answer, release, key };
}

describe.each(servers)("somebody else's request on %s", (server) => {
  test.each(['1', '"a"'])('cannot be cancelled, not even by its id %s', async (id) => {
    const [victim, neighbour, stranger] = await threeClients(server);
    const held = await holdCall(victim, id);
    const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id}}}`;
    for (const attacker of [neighbour, stranger]) expect((await attacker.post(cancel)).status).toBe(202);
    const modern = cancel.replace('"params":{', `"params":{"_meta":{${modernMeta}},`);
    for (const token of [mine, theirs]) {
      const sent = await sendModern(attacked[server], token, { method: 'notifications/cancelled' }, modern);
      expect(sent.status).toBe(202);
    }
    await held.release();
    expect(await readToolText(held.answer)).toBe(`released ${held.key}`);
  });

  test('is cancelled by its owner, and only that one of several with the same id', async () => {
    const [victim, neighbour, stranger] = await threeClients(server);
    const all = [await holdCall(victim, '1'), await holdCall(neighbour, '1'), await holdCall(stranger, '1')] as const;
    await neighbour.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
    expect((await all[1].answer).status).toBe(202);
    for (const held of [all[0], all[2]]) {
      await held.release();
      expect(await readToolText(held.answer)).toBe(`released ${held.key}`);
    }
  });
});

describe.each(servers)("somebody else's question on %s", (server) => {
  const answered = (id: number | string, marker: string) =>
    `{"jsonrpc":"2.0","id":${id},"result":{"action":"accept","content":{"from":"${marker}"}}}`;

  test('cannot be answered, nor can progress be reported on it', async () => {
    const [victim, neighbour, stranger] = await threeClients(server);
    const asking = await victim.call('push', '{"meta":"{\\"progressToken\\":\\"up\\"}"}');
    const { id } = JSON.parse((await asking.next()) ?? '') as { id: number };
    const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${id},"progress":1,"message":"stray"}}`;
    for (const attacker of [neighbour, stranger]) {
      for (const guess of [id, `"${id}"`, '"push-1"', '"push-2"', 0, -1])
        await attacker.post(answered(guess, 'intruder'));
      await attacker.post(progress);
    }
    expect((await victim.post(progress.replace('stray', 'honest'))).status).toBe(202);
    expect((await victim.post(answered(id, 'victim'))).status).toBe(202);
    const raw = await readToolText(asking);
    expect(raw).toContain('"from":"victim"');
    expect(raw).toMatch(/"id":"push-\d+"/);
    const seen = await readToolText(victim.call('recorded', '{}'));
    expect(seen).not.toContain('intruder');
    expect(seen).not.toContain('stray');
    expect(seen).toContain('honest');
  });

  test('is answered once: what comes later is nobody’s', async () => {
    const client = await connectHandshake(attacked[server], mine);
    const asking = await client.call('push', '{}');
    const { id } = JSON.parse((await asking.next()) ?? '') as { id: number };
    await client.post(answered(id, 'first'));
    await client.post(answered(id, 'second'));
    expect(await readToolText(asking)).toContain('"first"');
    expect(await readToolText(client.call('recorded', '{}'))).not.toContain('second');
  });
});

describe.each(servers)('progress on %s', (server) => {
  test('for a token nobody gave, or that another session gave, reaches nobody', async () => {
    const stranger = await connectHandshake(attacked[server], theirs);
    const held = await holdCall(stranger, '1', '"progressToken":"theirs"');
    const tokens = [...Array.from({ length: 40 }, (_, i) => String(i)), '"theirs"', '"1"', 'null', '{}', '1.5', '-1'];
    const lines = [
      ...tokens.map(
        (token) =>
          `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":1,"message":"stray"}}`,
      ),
      '{"jsonrpc":"2.0","id":$ID,"result":{}}',
    ];
    const sent = await callModern(attacked[server], mine, 'say', JSON.stringify({ lines }));
    expect(await sent.rest()).toHaveLength(1);
    await held.release();
    expect(await (await held.answer).rest()).toHaveLength(1);
  });
});

test('a call that was cancelled gets no late answer, and its id can be used again', async () => {
  const client = await connectHandshake(attacked.pipe, mine);
  const held = await holdCall(client, '1');
  await client.post('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}');
  await held.release();
  expect(await readToolText(client.call('echo', '{"marker":"again"}'))).toContain('again');
  expect(await (await held.answer).rest()).toEqual([]);
  expect((await readAnswer(client.call('echo', '{}'))).id).toBe(1);
});
