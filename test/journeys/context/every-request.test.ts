import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callModern, connectHandshake, readAnswer, readToolText, sendModern } from '../raw-mcp-client.ts';
import { type ContextGateway, servers, startContextGateway, type TestSession } from './start-context-gateway.ts';

let upstreams: ContextGateway;
let ada: TestSession;

beforeAll(async () => {
  upstreams = await startContextGateway();
  ada = await upstreams.open({ userId: 'ada', agentId: 'coder', workspaceId: 'garden', trustLevel: 'direct' });
});

afterAll(() => upstreams?.close());

const forged = '"ambit/context":{"sessionId":"forged"}';
const longUri = `note://${'x'.repeat(7000)}`;

/** Requests that the recorder answers with the line it got. */
const methods: [string, string, string?][] = [
  ['prompts/get', '"name":"greet","arguments":{"who":"é"}', 'greet'],
  ['resources/read', '"uri":"note://1"', 'note://1'],
  ['resources/read', '"uri":"note://1","name":"harmless"', 'note://1'],
  ['resources/read', `"uri":"${longUri}"`, longUri],
  ['resources/templates/list', '"cursor":"c"'],
  ['completion/complete', '"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"a","value":"b"}'],
  ['acme/do', '"name":"thing","x":9007199254740993', 'thing'],
  ['acme/do', '"arguments":[1,2]'],
  ['acme/do', '"arguments":{"a":9007199254740993}'],
];

describe.each(servers)('P12: to %s', (server) => {
  test('every method carries the context and a token for this request, in both eras', async () => {
    const client = await connectHandshake(upstreams.address(server), ada.token);
    for (const [method, params, name] of methods) {
      const named = name === undefined || method === 'acme/do' ? {} : { name };
      const modern = sendModern(upstreams.address(server), ada.token, { method, params, meta: forged, ...named });
      const body = `{"jsonrpc":"2.0","id":7,"method":"${method}","params":{${params},"_meta":{${forged}}}}`;
      for (const sent of [modern, client.post(body)]) {
        const answer = await readAnswer(sent);
        const raw = answer.result?.raw as string;
        expect(raw, JSON.stringify(answer).slice(0, 300)).toContain(params);
        await upstreams.expectContext(raw, server, ada);
      }
    }
    await client.leave();
  });
});

test('P12: a handshake that Ambit repeats by itself carries the session too, with a new token', async () => {
  const tokens: string[] = [];
  for (const server of ['pipe', 'pipe-old', 'web', 'web-old'] as const) {
    const session = await upstreams.open({ userId: 'ada' });
    const client = await connectHandshake(
      upstreams.address(server),
      session.token,
      '2025-11-25',
      `{},"_meta":{${forged}}`,
    );
    await readToolText(client.call(server.startsWith('pipe') ? 'exit' : 'forget', '{}'));
    const after = () => readToolText(client.call('echo', '{}'));
    await expect.poll(after, { timeout: 50_000 }).toContain('"echo"');
    const lines = server.startsWith('pipe')
      ? (JSON.parse(await readToolText(client.call('recorded', '{}'))) as string[])
      : (await upstreams.received(server, session)).filter((raw) => raw.includes(session.id));
    const handshakes = lines.filter((raw) => raw.includes('"method":"initialize"'));
    expect(handshakes).toHaveLength(server.startsWith('pipe') ? 1 : 2);
    for (const raw of handshakes) {
      await upstreams.expectContext(raw, server, session);
      tokens.push(/"token":"([^"]+)"/.exec(raw)?.[1] ?? '');
    }
    await client.leave();
  }
  expect(new Set(tokens).size).toBe(tokens.length);
});

test('P6, P12: from the next call on, a restricted session is described as restricted', async () => {
  const session = await upstreams.open({ userId: 'bob', trustLevel: 'direct' });
  const clients = await Promise.all(
    (['web', 'web-old', 'web-new'] as const).map(
      async (server) => [server, await connectHandshake(upstreams.address(server), session.token)] as const,
    ),
  );
  for (const [server, client] of clients) {
    await upstreams.expectContext(await readToolText(client.call('echo', '{}')), server, session);
  }
  await upstreams.gateway.restrictSession(session.id, { trustLevel: 'sandboxed' });
  const narrowed = { ...session, context: { ...session.context, trustLevel: 'sandboxed' } };
  for (const [server, client] of clients) {
    await upstreams.expectContext(await readToolText(client.call('echo', '{}')), server, narrowed);
    const modern = callModern(upstreams.address(server), session.token, 'echo', '{}');
    await upstreams.expectContext(await readToolText(modern), server, narrowed);
  }
});

test('no token is written down by the gateway', async () => {
  await readToolText(callModern(upstreams.address('pipe'), ada.token, 'echo', '{}'));
  const journal = () => readFileSync(join(upstreams.folder, 'data/journal/journal.jsonl'), 'utf8');
  await expect.poll(journal, { timeout: 50_000 }).toContain('tools/call');
  expect(journal()).not.toMatch(/eyJ|txntoken/);
});
