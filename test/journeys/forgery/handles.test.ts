import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  callModern,
  connectHandshake,
  type HandshakeClient,
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

const servers = ['pipe', 'web'] as const;
type Server = (typeof servers)[number];

describe.each(servers)('requestState of %s', (server) => {
  async function handedOut(token: string, marker: string): Promise<string> {
    const { result } = await readAnswer(callModern(attacked[server], token, 'state', `{"marker":"${marker}"}`));
    expect(result?.resultType).toBe('input_required');
    return result?.requestState as string;
  }

  function retry(url: string, token: string, state: string, name = 'state') {
    const params = `"name":"${name}","arguments":{},"inputResponses":{},"requestState":${JSON.stringify(state)}`;
    return sendModern(url, token, { name, params });
  }

  test('comes back to the upstream as it was written', async () => {
    const state = await handedOut(mine, 'a \\ud800 é');
    expect(state).not.toBe('state of a \ud800 é');
    expect(await readToolText(retry(attacked[server], mine, state))).toContain('"requestState":"state of a \\ud800 é"');
  });

  test('does not open in another session, for another tool or server, nor when it was tampered with', async () => {
    const state = await handedOut(mine, 'm');
    const other = server === 'pipe' ? attacked.tube : attacked.pipe;
    const flipped = state.replace(/^./, (first) => (first === 'A' ? 'B' : 'A'));
    const attempts = {
      'another session': retry(attacked[server], theirs, state),
      'another tool': retry(attacked[server], mine, state, 'echo'),
      'another server': retry(other, mine, state),
      tampered: retry(attacked[server], mine, flipped),
      'another value': retry(attacked[server], mine, state.replace('state of m', 'state of x')),
      'as the upstream wrote it': retry(attacked[server], mine, 'state of m'),
      nothing: retry(attacked[server], mine, ''),
    };
    for (const [what, sent] of Object.entries(attempts)) {
      const { error, result } = await readAnswer(sent);
      expect(result, what).toBeUndefined();
      expect(error?.code, what).toBe(-32602);
    }
  });
});

describe.each(servers)('task ids of %s', (server) => {
  type Ask = (method: string, taskId: string) => ReturnType<typeof readAnswer>;

  const modern =
    (token: string): Ask =>
    (method, taskId) =>
      readAnswer(
        sendModern(attacked[server], token, { method, name: taskId, params: `"taskId":${JSON.stringify(taskId)}` }),
      );

  const handshake =
    (client: HandshakeClient): Ask =>
    (method, taskId) =>
      readAnswer(
        client.post(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":{"taskId":${JSON.stringify(taskId)}}}`),
      );

  async function expectOwn(ask: Ask, stranger: Ask, sealed: string, upstreamId: string): Promise<void> {
    expect(sealed).not.toBe(upstreamId);
    const { result } = await ask('tasks/get', sealed);
    expect(result?.raw).toContain(`"taskId":"${upstreamId}"`);
    expect(result?.taskId).toBe(sealed);
    for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update', 'tasks/result']) {
      const unknown = await stranger(method, 'no such task');
      // The modern era has no tasks/result.
      expect(method === 'tasks/result' ? [-32601, -32602] : [-32602]).toContain(unknown.error?.code);
      expect(await stranger(method, sealed)).toEqual(unknown);
      expect(await stranger(method, upstreamId)).toEqual(unknown);
      expect(await ask(method, upstreamId)).toEqual(unknown);
    }
  }

  test('of a modern task are good in their session only', async () => {
    const { result } = await readAnswer(callModern(attacked[server], mine, 'task', '{"marker":"one"}'));
    expect(result?.resultType).toBe('task');
    await expectOwn(modern(mine), modern(theirs), result?.taskId as string, 'task of one');
  });

  test('of a handshake task are good in their session only', async () => {
    const [client, stranger] = await Promise.all([
      connectHandshake(attacked[server], mine),
      connectHandshake(attacked[server], theirs),
    ]);
    const { result } = await readAnswer(client.call('task', '{"marker":"one"}'));
    const taskId = (result?.task as { taskId: string } | undefined)?.taskId ?? '';
    await expectOwn(handshake(client), handshake(stranger), taskId, 'task of one');
  });

  test('S2: of a list are those of the tasks that this session made, in both eras', async () => {
    const [maker, other] = (await Promise.all([attacked.open(), attacked.open()])).map(({ token }) => token) as [
      string,
      string,
    ];
    const url = attacked[server];
    const listed = async (sent: ReturnType<typeof sendModern>) =>
      ((await readAnswer(sent)).result?.tasks ?? []) as { taskId: string }[];
    const list = '{"jsonrpc":"2.0","id":1,"method":"tasks/list"}';
    const modernList = { method: 'tasks/list' };
    const [client, stranger] = await Promise.all([connectHandshake(url, maker), connectHandshake(url, other)]);
    // The server knows one customer: it lists "task of one" and "task of two" to everybody.
    const one = (await readAnswer(client.call('task', '{"marker":"one"}'))).result?.task as { taskId: string };
    const two = (await readAnswer(callModern(url, other, 'task', '{"marker":"two"}'))).result?.taskId as string;
    expect(await listed(client.post(list))).toEqual([{ taskId: one.taskId }]);
    expect(await listed(sendModern(url, maker, modernList))).toEqual([{ taskId: one.taskId }]);
    expect(await listed(stranger.post(list))).toEqual([{ taskId: two }]);
    expect(await listed(sendModern(url, other, modernList))).toEqual([{ taskId: two }]);
  });

  test('cannot be smuggled in beside one of our own', async () => {
    const { result } = await readAnswer(callModern(attacked[server], mine, 'task', '{"marker":"one"}'));
    const own = JSON.stringify(result?.taskId);
    const meta = `"io.modelcontextprotocol/related-task":{"taskId":${own},"taskId":"task of two"}`;
    expect((await callModern(attacked[server], mine, 'echo', '{}', { meta })).status).toBe(400);
    const fine = `"io.modelcontextprotocol/related-task":{"taskId":${own}}`;
    expect(await readToolText(callModern(attacked[server], mine, 'echo', '{}', { meta: fine }))).toContain(
      '"task of one"',
    );
  });
});

test('the name header of a task request is what the upstream calls the task', async () => {
  const { result } = await readAnswer(callModern(attacked.web, mine, 'task', '{"marker":"named"}'));
  const taskId = result?.taskId as string;
  await readAnswer(
    sendModern(attacked.web, mine, { method: 'tasks/get', name: taskId, params: `"taskId":${JSON.stringify(taskId)}` }),
  );
  const request = (await attacked.recordedOverHttp()).find(
    ({ body }) => body.includes('tasks/get') && body.includes('task of named'),
  );
  expect(request?.headers).toContain('task of named');
});

describe.each<Server>(['pipe'])('a listen stream of %s', (server) => {
  test('carries the id of its own request, and nothing of another session', async () => {
    const [listener, other] = await Promise.all(
      [mine, theirs].map((token) =>
        sendModern(attacked[server], token, {
          method: 'subscriptions/listen',
          id: '"listen"',
          params: '"notifications":{}',
        }),
      ),
    );
    const told = (marker: string, id: string) =>
      `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${id}},"marker":"${marker}"}}`;
    expect(await listener!.next()).toContain('"io.modelcontextprotocol/subscriptionId":"listen"');
    expect(await other!.next()).toContain('"io.modelcontextprotocol/subscriptionId":"listen"');
    const done = '{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete"}}';
    const strangers = ['0', '-1', '1e9', '"listen"', 'null', '{}', '$ID'].map((id) => told('stray', id));
    for (const [token, marker] of [
      [theirs, 'theirs'],
      [mine, 'mine'],
    ] as const) {
      const lines = [...strangers, told(marker, '$LISTEN'), done];
      expect(await (await callModern(attacked[server], token, 'say', JSON.stringify({ lines }))).rest()).toHaveLength(
        1,
      );
    }
    expect(await listener!.next()).toBe(told('mine', '"listen"'));
    expect(await other!.next()).toBe(told('theirs', '"listen"'));
    listener!.close();
    other!.close();
  });
});
