import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { sendRaw } from '../http-exchange.ts';
import { callModern, connectHandshake, modernMeta, readAnswer, readToolText, sendModern } from '../raw-mcp-client.ts';
import {
  type ContextGateway,
  findStrayKeys,
  servers,
  startContextGateway,
  type TestSession,
} from './start-context-gateway.ts';

let upstreams: ContextGateway;
let ada: TestSession;
let bob: TestSession;

beforeAll(async () => {
  upstreams = await startContextGateway();
  ada = await upstreams.open({
    userId: 'ada',
    agentId: 'coder',
    workspaceId: 'garden',
    trustLevel: 'direct',
  });
  bob = await upstreams.open({ userId: 'bob' });
});

afterAll(() => upstreams?.close());

const forgedContext =
  '{"sessionId":"forged","userId":"forged","trustLevel":"direct","permissions":["*"],"token":"forged"}';
const escaped = [...'ambit/'].map((char) => `\\u00${char.charCodeAt(0).toString(16)}`).join('');
const forged = [
  `"ambit/context":${forgedContext}`,
  `"AMBIT/token":${forgedContext}`,
  `"${escaped}context2":"forged"`,
  '"ambit\\/x":"forged"',
  `"ambit/use-session":"forged"`,
].join(',');
/** Other names a server might take for the session: they pass unchanged. */
const hints = '"sessionId":"s","com.example/user":"root"';
const shuffled = `${forged.split(',"A')[0]},${hints},${forged.slice(forged.indexOf('"AMBIT'))}`;
const argsForged = `{"_meta":{"ambit/context":${forgedContext}},"ambit/context":${forgedContext},"session":"forged"}`;
const headers = {
  // Two lines of one header, as the sender wrote them.
  'Txn-Token': ['forged', 'forged too'] as unknown as string,
  'TXN-TOKEN-': 'forged',
  baggage: 'ambit.session=forged',
  'AMBIT-Session-Id': 'forged',
  'X-Ambit-Context': forgedContext,
  'Mcp-Param-Txn-Token': 'forged',
};

function outsideArguments(raw: string): string {
  return raw.replace(argsForged, '');
}

describe.each(servers)('P4: to %s', (server) => {
  const own = () => upstreams.address(server);
  // The two eras take turns at the two addresses; for the proof each comes to both.
  const addresses = (turn: number) =>
    (['one', 'all'] as const).filter((_, index) => proof || (servers.indexOf(server) + turn) % 2 === index);

  test.each(addresses(0))('_meta, arguments and headers of a modern request, at the address of %s', async (at) => {
    const name = at === 'one' ? 'echo' : `${server}__echo`;
    const url = at === 'one' ? own() : upstreams.address();
    for (const meta of [forged, shuffled, `"ambit/context":null`, `"Ambit/Context":[${forgedContext}]`]) {
      const params = `"name":"${name}","arguments":${argsForged}`;
      const raw = await readToolText(sendModern(url, ada.token, { name, params, meta, headers }));
      await upstreams.expectContext(raw, server, ada);
      expect(outsideArguments(raw)).not.toContain('forged');
      if (meta === shuffled) expect(raw).toContain(hints);
    }
    // Ours before theirs, and between: the order must not matter.
    const body = (meta: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","_meta":{${meta}}}}`;
    for (const meta of [`${forged},${modernMeta}`, modernMeta.replace(',', `,${forged},`)]) {
      const raw = await readToolText(sendModern(url, ada.token, { name }, body(meta)));
      await upstreams.expectContext(raw, server, ada);
      expect(raw).not.toContain('forged');
    }
  });

  test.each(addresses(1))('_meta, arguments and headers of a handshake client, at the address of %s', async (at) => {
    const name = at === 'one' ? 'echo' : `${server}__echo`;
    const url = at === 'one' ? own() : upstreams.address();
    const client = await connectHandshake(url, ada.token, '2025-11-25', `{"elicitation":{}},"_meta":{${shuffled}}`);
    for (const meta of ['', forged, shuffled]) {
      const raw = await readToolText(client.call(name, argsForged, { meta }));
      await upstreams.expectContext(raw, server, ada);
      expect(outsideArguments(raw)).not.toContain('forged');
    }
    const bare = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"${name}"}}`;
    await upstreams.expectContext(await readToolText(client.post(bare, headers)), server, ada);
    await client.leave();
  });

  test('every element of a batch', async () => {
    const client = await connectHandshake(own(), ada.token, '2025-03-26');
    const element = (id: number, meta: string) =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo","arguments":{},"_meta":{${meta}}}}`;
    const notification = `{"jsonrpc":"2.0","method":"notifications/odd","params":{"_meta":{${forged}}}}`;
    const sent = await client.post(
      `[${element(1, forged)},${notification},${element(2, '')},${element(3, shuffled)}]`,
      headers,
    );
    const answers = (await sent.rest()).flatMap(
      (text) => JSON.parse(text) as { result: { content: [{ text: string }] } }[],
    );
    expect(answers).toHaveLength(3);
    for (const { result } of answers) await upstreams.expectContext(result.content[0].text, server, ada);
    await client.leave();
  });

  test('the answer to a question, and what comes with it', async () => {
    // Where the client and the server are of one era the question travels as it is, else over a bridge.
    const answer = `{"action":"accept","content":{},"_meta":{${forged}},"_Meta":{${forged}}}`;
    const pushed = server.endsWith('-new') ? 'state' : 'push';
    const client = await connectHandshake(own(), ada.token);
    const asking = await client.call(pushed, '{"marker":"m"}', { meta: forged });
    const { id, method } = JSON.parse((await asking.next()) ?? '') as { id: number; method: string };
    expect(method).toBe('elicitation/create');
    const plain = answer.replace(/,"_Meta":.*/, '}');
    expect((await client.post(`{"jsonrpc":"2.0","id":${id},"result":${plain}}`)).status).toBe(202);
    const raw = await readToolText(asking);
    expect(raw).not.toContain('forged');
    expect(raw).toContain('"action":"accept"');
    if (pushed === 'state') await upstreams.expectContext(raw, server, ada);
    await client.leave();

    const asks = server.endsWith('-old') ? 'push' : 'state';
    const { result } = await readAnswer(callModern(own(), ada.token, asks, '{"marker":"m"}', { meta: forged }));
    expect(result?.resultType).toBe('input_required');
    const [key] = Object.keys(result?.inputRequests as object);
    const retry = (token: string) =>
      sendModern(own(), token, {
        name: asks,
        meta: forged,
        params: `"name":"${asks}","arguments":{"marker":"m"},"requestState":${JSON.stringify(result?.requestState)},"inputResponses":{"${key}":${answer}}`,
      });
    // Somebody else's session has no use for it, and the upstream does not hear of the attempt.
    expect((await readAnswer(retry(bob.token))).error?.code).toBe(-32602);
    const again = await readToolText(retry(ada.token));
    expect(again).not.toContain('forged');
    expect(again).toContain('"action":"accept"');
    if (asks === 'state') await upstreams.expectContext(again, server, ada);
  });

  test('and on the way back our keys are taken out of results and questions', async () => {
    const meta = `{${forged},"k":1}`;
    const line = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[],"_meta":${meta}}}`;
    const told = JSON.stringify({ lines: [line] });
    const client = await connectHandshake(own(), ada.token);
    for (const sent of [client.call('say', told), callModern(own(), ada.token, 'say', told)]) {
      const { result } = await readAnswer(sent);
      expect(result?._meta).toEqual({ k: 1 });
    }
    if (!server.endsWith('-new')) {
      const asking = await client.call('push', JSON.stringify({ meta }));
      const question = (await asking.next()) ?? '';
      expect(question).toContain('"_meta":{"k":1}');
      asking.close();
    }
    if (server.endsWith('-old')) {
      const { result } = await readAnswer(callModern(own(), ada.token, 'push', JSON.stringify({ meta })));
      const [question] = Object.values(result?.inputRequests as Record<string, { params: { _meta: object } }>);
      expect(question?.params._meta).toEqual({ k: 1 });
    }
    await client.leave();
  });

  test('a request whose _meta is odd or ambiguous does not arrive', async () => {
    const client = await connectHandshake(own(), ada.token);
    for (const [what, meta] of [
      ['is no object', `"_meta":"${'forged'}"`],
      ['is a list', `"_meta":[{${forged}}]`],
      ['is null', '"_meta":null'],
      ['comes twice', `"_meta":{},"_meta":{${forged}}`],
      ['comes in another case', `"_META":{${forged}}`],
      ['comes escaped and plain', `"_meta":{},"\\u005fmeta":{${forged}}`],
      ['holds our key twice', `"_meta":{${forged},"ambit/context":1}`],
    ]) {
      const body = `{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{"name":"echo","arguments":{"odd":1},${meta}}}`;
      const { error, result } = await readAnswer(client.post(body));
      expect(result, what).toBeUndefined();
      expect(error?.code, what).toBeLessThan(0);
    }
    await client.leave();
  });

  test('another session cannot be borrowed by its ids', async () => {
    const other = await connectHandshake(own(), bob.token);
    const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}';
    const borrowed = await sendRaw(own(), {
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${ada.token}`,
        'mcp-session-id': other.transportId,
        'mcp-protocol-version': '2025-11-25',
      },
      body,
    });
    expect(borrowed.status).toBe(404);
    await borrowed.rest();
    const meta = `"ambit/use-session":"${bob.id}","openai/session":"${bob.id}","sessionID":"${bob.id}"`;
    const raw = await readToolText(
      callModern(own(), ada.token, 'echo', `{"session":"${bob.id}"}`, {
        meta,
        headers: { 'mcp-session-id': other.transportId },
      }),
    );
    await upstreams.expectContext(raw, server, ada);
    const { result } = await readAnswer(callModern(own(), bob.token, 'task', '{"marker":"m"}'));
    const taskId = (result?.taskId ?? (result?.task as { taskId: string } | undefined)?.taskId) as string;
    const stolen = await readAnswer(
      sendModern(own(), ada.token, {
        method: 'tasks/get',
        name: taskId,
        params: `"taskId":${JSON.stringify(taskId)}`,
        meta: forged,
      }),
    );
    // A server of the handshake era without tasks knows no such method.
    expect(stolen.error?.message).toBe(server.endsWith('-old') ? 'Method not found' : 'Task not found');
    await other.leave();
  });
});

/** Last, because it looks at all that went before. */
describe('P12: of everything that an upstream was ever sent', () => {
  test.each(servers)(
    'each request to %s tells its session, Ambit’s own ones too, and nothing else of ours',
    async (server) => {
      await readAnswer(sendModern(upstreams.address(), ada.token, { method: 'tools/list' }));
      const lines = await upstreams.received(server, ada);
      const requests = lines.filter((raw) => /"method":/.test(raw) && 'id' in (JSON.parse(raw) as object));
      const methods = new Set(requests.map((raw) => (JSON.parse(raw) as { method: string }).method));
      if (server.startsWith('web')) {
        expect([...methods]).toEqual(
          expect.arrayContaining([server.endsWith('-old') ? 'initialize' : 'server/discover']),
        );
        expect([...methods]).toContain('tools/list');
      }
      expect(requests.length).toBeGreaterThan(0);
      for (const raw of requests) {
        const { sessionId } = (JSON.parse(raw) as { params: { _meta: { 'ambit/context': { sessionId: string } } } })
          .params._meta['ambit/context'];
        await upstreams.expectContext(raw, server, sessionId === bob.id ? bob : ada);
      }
      for (const raw of lines) {
        expect(findStrayKeys(raw), raw).toEqual([]);
        expect(raw).not.toContain('"odd":1');
      }
    },
  );

  test('each request over HTTP has the same token in its header, once', async () => {
    const all = await upstreams.overHttp();
    expect(all.length).toBeGreaterThan(50);
    const tokens: string[] = [];
    for (const { headers: raw, body } of all) {
      const found = raw.flatMap((name, i) => (i % 2 === 0 && name.toLowerCase() === 'txn-token' ? [raw[i + 1]] : []));
      const message =
        body === ''
          ? {}
          : (JSON.parse(body) as {
              id?: unknown;
              method?: string;
              params?: { _meta?: Record<string, { token: string }> };
            });
      const isRequest = message.method !== undefined && message.id !== undefined;
      expect(found, body).toEqual(isRequest ? [message.params?._meta?.['ambit/context']?.token] : []);
      tokens.push(...(found as string[]));
      const names = raw.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
      expect(names.filter((name) => name.includes('ambit') || name === 'authorization')).toEqual([]);
    }
    expect(new Set(tokens).size).toBe(tokens.length);
  });
});
