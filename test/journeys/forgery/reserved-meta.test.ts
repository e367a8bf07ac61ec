import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import {
  callModern,
  connectHandshake,
  modernMeta,
  patience,
  readAnswer,
  readToolText,
  sendModern,
} from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let token: string;

beforeAll(async () => {
  attacked = await startRecordedGateway((url) => ({
    servers: {
      'pipe-handshake': { ...stdioRecorder, context: 'none', era: 'handshake' },
      'pipe-modern': { ...stdioRecorder, context: 'none', era: 'modern' },
      'web-handshake': { url, context: 'none', era: 'handshake' },
      'web-modern': { url, context: 'none', era: 'modern' },
    },
  }));
  ({ token } = await attacked.open());
});

afterAll(() => attacked?.stop());

const servers = ['pipe', 'web'] as const;
const escaped = [...'ambit/'].map((char) => `\\u00${char.charCodeAt(0).toString(16)}`).join('');
const forged = `"ambit/context":{"sessionId":"forged"},"AMBIT/X":1,"Ambit/error":"forged","${escaped}context2":"forged","ambit\\/c":1,"ambit":{"workspace":"","sessionId":"forged"},"ambit.workspace":"","Ambit.user":"forged"`;
/** Ours to leave alone: neither prefix nor spelling is ours. */
const kept = '"com.example/k":9007199254740993,"ambition":{"workspace":"w"},"orbit.workspace":"w","xambit/y":-0';

function ours(meta: object | undefined): string[] {
  return Object.keys(meta ?? {}).filter((key) => /^ambit(?:$|[/.])/i.test(key));
}

interface Line {
  readonly params?: { readonly _meta?: object; readonly arguments?: unknown };
  readonly result?: { readonly _meta?: object };
}

/** The bytes that the upstream read. */
function line(raw: string): Line {
  return JSON.parse(raw) as Line;
}

const questionMethods = ['sampling/createMessage', 'elicitation/create', 'roots/list'];
const askable = '{"sampling":{},"elicitation":{},"roots":{}}';

describe.each(servers)('forged keys on the way to %s', (server) => {
  test('in a modern request', async () => {
    const raw = await readToolText(callModern(attacked[server], token, 'echo', '{}', { meta: `${forged},${kept}` }));
    expect(ours(line(raw).params?._meta)).toEqual([]);
    expect(raw).toContain(`${modernMeta},${kept}}`);
    expect(raw).not.toContain('forged');
  });

  test('first, in the middle, last and alone', async () => {
    const client = await connectHandshake(attacked[server], token);
    for (const [meta, expected] of [
      ['"ambit/a":1,"k":1', '{"k":1}'],
      ['"k":1,"ambit/a":1', '{"k":1}'],
      ['"k":1,"ambit/a":1,"l":2', '{"k":1,"l":2}'],
      ['"ambit/a":{"ambit/b":[1,{"x":"}"}]}', '{}'],
      ['"ambit/a":1,"k":1,"ambit/b":1', '{"k":1}'],
    ] as const) {
      expect(await readToolText(client.call('echo', '{}', { meta }))).toContain(`"_meta":${expected}}}`);
    }
  });

  test('in a handshake request, and in a method nobody knows', async () => {
    const client = await connectHandshake(attacked[server], token);
    const raw = await readToolText(client.call('echo', '{}', { meta: `${forged},${kept}` }));
    expect(raw).toContain(`"_meta":{${kept}}`);
    const unknown = `{"jsonrpc":"2.0","id":1,"method":"acme/do","params":{"_meta":{${forged},${kept}}}}`;
    const { result } = await readAnswer(client.post(unknown));
    expect(result?.raw).toContain(`"_meta":{${kept}}`);
  });

  test('in initialize', async () => {
    const meta = `"_meta":{${forged},${kept}}`;
    const { token: fresh } = await attacked.open();
    const client = await connectHandshake(attacked[server], fresh, '2025-11-25', `{},${meta}`);
    const raw = await seen(server, () => readToolText(client.call('recorded', '{}')), '"method":"initialize"');
    expect(raw.at(-1)).toContain(`"_meta":{${kept}}`);
  });

  test('in notifications, of either era', async () => {
    const { token: fresh } = await attacked.open();
    const client = await connectHandshake(attacked[server], fresh);
    const notification = (name: string, meta: string) =>
      `{"jsonrpc":"2.0","method":"notifications/${name}","params":{"_meta":{${meta}${forged},${kept}}}}`;
    expect((await client.post(notification('early', ''))).status).toBe(202);
    expect(
      line((await seen(server, () => readToolText(client.call('recorded', '{}')), 'notifications/early'))[0]!).params
        ?._meta,
    ).toEqual(JSON.parse(`{${kept}}`));
    await readToolText(callModern(attacked[server], fresh, 'echo', '{}'));
    const late = notification('late', `${modernMeta},`);
    expect((await sendModern(attacked[server], fresh, { method: 'notifications/late' }, late)).status).toBe(202);
    const recorded = () => readToolText(callModern(attacked.pipe, fresh, 'recorded', '{}'));
    const [raw] = await seen(server, recorded, 'notifications/late');
    expect(ours(line(raw!).params?._meta)).toEqual([]);
  });

  test('in the answer to a push', async () => {
    const client = await connectHandshake(attacked[server], token);
    const asking = await client.call('push', '{}');
    const { id } = JSON.parse((await asking.next()) ?? '') as { id: number };
    const answer = `{"jsonrpc":"2.0","id":${id},"result":{"action":"accept","content":{"_meta":{"ambit/mine":1}},"_meta":{${forged},${kept}}}}`;
    expect((await client.post(answer)).status).toBe(202);
    const raw = await readToolText(asking);
    expect(raw).toContain(`"content":{"_meta":{"ambit/mine":1}},"_meta":{${kept}}`);
  });

  test('in every element of a batch', async () => {
    const client = await connectHandshake(attacked[server], token, '2025-03-26');
    const element = (id: number) =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo","_meta":{${forged},${kept}}}}`;
    const answered = await client.post(`[${element(1)} , ${element(2)},\n${element(3)}]`);
    const all = (await answered.rest()).flatMap((text) => JSON.parse(text) as unknown) as {
      id: number;
      result: { content: { text: string }[] };
    }[];
    expect(all.map(({ id }) => id).sort()).toEqual([1, 2, 3]);
    for (const { result } of all) expect(result.content[0]?.text).toContain(`"_meta":{${kept}}`);
  });

  test('in the answers a retried request carries', async () => {
    const { result } = await readAnswer(callModern(attacked[server], token, 'state', '{"marker":"m"}'));
    const answers = `"inputResponses":{"sure":{"action":"accept","_meta":{${forged}}}}`;
    const params = `"name":"state","arguments":{},"requestState":${JSON.stringify(result?.requestState)},${answers}`;
    const raw = await readToolText(sendModern(attacked[server], token, { name: 'state', params }));
    expect(raw).toContain('"inputResponses":{"sure":{"action":"accept","_meta":{}}}');
  });

  test('inside arguments they are not ours, and stay', async () => {
    const args = `{"_meta":{${forged}},"ambit/context":1}`;
    expect(await readToolText(callModern(attacked[server], token, 'echo', args))).toContain(`"arguments":${args}`);
  });
});

describe.each(servers)('forged keys on the way back from %s', (server) => {
  const result = (meta: string) => `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[],${meta}}}`;
  const told = (lines: string[]) => JSON.stringify({ lines });

  test.each([
    ['once', `"_meta":{${forged},${kept}}`, `"_meta":{${kept}}`],
    ['twice', `"_meta":{${kept}},"_meta":{${forged}}`, `"_meta":{${kept}},"_meta":{}`],
    ['in another case', `"_META":{${forged},${kept}}`, `"_META":{${kept}}`],
  ])('in a result, with _meta %s', async (_name, meta, expected) => {
    for (const sent of [
      await callModern(attacked[server], token, 'say', told([result(meta)])),
      await (await connectHandshake(attacked[server], token)).call('say', told([result(meta)])),
    ]) {
      expect((await sent.rest()).at(-1)).toBe(
        `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],${expected}}}`,
      );
    }
  });

  test('in notifications that come before it', async () => {
    const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1,"_meta":{${forged},${kept}}}}`;
    const lines = told([progress, result('"x":1')]);
    for (const sent of [
      await callModern(attacked[server], token, 'say', lines, { meta: '"progressToken":"t"' }),
      await (await connectHandshake(attacked[server], token)).call('say', lines, { meta: '"progressToken":"t"' }),
    ]) {
      expect(await sent.next()).toBe(
        `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"_meta":{${kept}}}}`,
      );
      await sent.rest();
    }
  });

  test.each(questionMethods)('in a %s request of the server', async (method) => {
    const client = await connectHandshake(attacked[server], token, '2025-11-25', askable);
    const push = `{"jsonrpc":"2.0","id":"q","method":"${method}","params":{"_meta":{${forged},${kept}}}}`;
    const [asked] = await (await client.call('say', told([push, result('"x":1')]))).rest();
    expect(asked).toContain(`"method":"${method}","params":{"_meta":{${kept}}}`);
  });

  test.each(questionMethods)('in a %s request that a modern client gets inside a result', async (method) => {
    const push = `{"jsonrpc":"2.0","id":"q","method":"${method}","params":{"_meta":{${forged},"k":1}}}`;
    const url = attacked.ambit.mcp(`${server}-handshake`);
    const { result: asks } = await readAnswer(callModern(url, token, 'say', told([push, result('"x":1')])));
    expect(Object.values(asks?.['inputRequests'] ?? {})).toEqual([{ method, params: { _meta: { k: 1 } } }]);
  });

  test.each(questionMethods)('in a %s question that a handshake-era client gets as a request', async (method) => {
    const inside = `"inputRequests":{"q":{"method":"${method}","params":{"_meta":{${forged},"k":1}}}}`;
    const asks = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required",${inside}}}`;
    const client = await connectHandshake(attacked.ambit.mcp(`${server}-modern`), token, '2025-11-25', askable);
    const asking = await client.call('say', told([asks]));
    expect(JSON.parse((await asking.next()) ?? '')).toMatchObject({ method, params: { _meta: { k: 1 } } });
    asking.close();
  });

  test.each([
    ['message', '"level":"info","data":"x",', '"io.modelcontextprotocol/logLevel":"debug"'],
    ['tasks/status', '"taskId":1,', ''],
    ['acme', '', ''],
  ])('in notifications/%s', async (name, inside, meta) => {
    const method = `notifications/${name}`;
    const notification = `{"jsonrpc":"2.0","method":"${method}","params":{${inside}"_meta":{${forged},${kept}}}}`;
    const lines = told([notification, result('"x":1')]);
    for (const sent of [
      await callModern(attacked[server], token, 'say', lines, { meta }),
      await (await connectHandshake(attacked[server], token)).call('say', lines),
    ]) {
      expect((await sent.rest())[0]).toBe(
        `{"jsonrpc":"2.0","method":"${method}","params":{${inside}"_meta":{${kept}}}}`,
      );
    }
  });

  test('in the questions of an input_required result', async () => {
    const question = (meta: string) =>
      `"inputRequests":{"q":{"method":"elicitation/create","params":{"_meta":{${meta}}}}}`;
    const sent = callModern(attacked[server], token, 'say', told([result(question(`${forged},${kept}`))]));
    expect((await (await sent).rest()).at(-1)).toContain(question(kept));
  });

  test('in a handshake that further clients are told of', async () => {
    const client = await connectHandshake(attacked[server], token);
    expect(client.initialized).not.toMatch(/ambit\//i);
  });
});

describe.each(['pipe', 'web'] as const)('at the address of all servers, where %s asks a person', (server) => {
  const all = () => `${attacked.ambit.url}/mcp`;
  const params = '"params":{"message":"PIN?","requestedSchema":{"type":"object"}}';
  const push = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create",${params}}`;
  const inside = `"inputRequests":{"q":{"method":"elicitation/create",${params}}}`;
  const asks = `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required",${inside}}}`;

  test.each([
    ['handshake', push],
    ['modern', asks],
  ])('a handshake-era client is told the name of the %s server', async (era, line) => {
    const client = await connectHandshake(all(), token, '2025-11-25', askable);
    const asking = await client.call(`${server}-${era}__say`, JSON.stringify({ lines: [line] }));
    const message = `${server}-${era} asks: PIN?`;
    expect(JSON.parse((await asking.next()) ?? '')).toMatchObject({
      method: 'elicitation/create',
      params: { message },
    });
    asking.close();
  });

  test('a modern client is told the name of the handshake server', async () => {
    const lines = JSON.stringify({ lines: [push, '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'] });
    const { result } = await readAnswer(callModern(all(), token, `${server}-handshake__say`, lines));
    const message = `${server}-handshake asks: PIN?`;
    expect(Object.values(result?.['inputRequests'] ?? {})).toMatchObject([{ params: { message } }]);
  });
});

/** Nobody answers a notification, so its arrival has to be looked for. */
async function seen(server: string, recorded: () => Promise<string>, part: string): Promise<string[]> {
  return vi.waitFor(async () => {
    const lines =
      server === 'web'
        ? (await attacked.recordedOverHttp()).map(({ body }) => body)
        : (JSON.parse(await recorded()) as string[]);
    const found = lines.filter((raw) => raw.includes(part));
    expect(found.length).toBeGreaterThan(0);
    return found;
  }, patience);
}
