import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Exchange } from '../http-exchange.ts';
import { callModern, connectHandshake, patience, readAnswer, readToolText, sendModern } from '../raw-mcp-client.ts';
import { type RecordedGateway, type RecordedRequest, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let token: string;

beforeAll(async () => {
  attacked = await startRecordedGateway((url) => ({
    servers: { keyed: { url, headers: { Authorization: 'Bearer of-the-operator', 'Mcp-Param-Region': 'pinned' } } },
  }));
  ({ token } = await attacked.open());
});

afterAll(() => attacked?.stop());

const smuggled: Record<string, string> = {
  cookie: 'sid=smuggled',
  'txn-token': 'smuggled',
  forwarded: 'for=smuggled',
  'x-forwarded-for': 'smuggled',
  'x-forwarded-host': 'smuggled',
  'x-forwarded-user': 'smuggled',
  'x-real-ip': 'smuggled',
  via: '1.1 smuggled',
  'proxy-authorization': 'Bearer smuggled',
  'proxy-connection': 'smuggled',
  te: 'trailers',
  trailer: 'smuggled',
  'keep-alive': 'timeout=99',
  'last-event-id': 'smuggled',
  'x-api-key': 'smuggled',
  'x-mcp-userid': 'smuggled',
  'ambit-context': 'smuggled',
  baggage: 'user=smuggled',
  referer: 'http://127.0.0.1/smuggled',
  'user-agent': 'smuggled',
  'accept-language': 'smuggled',
  expect: '100-continue',
};

/** The request whose body has this marker. */
async function recorded(marker: string): Promise<RecordedRequest> {
  const found = (await attacked.recordedOverHttp()).filter(({ body }) => body.includes(marker));
  expect(found).toHaveLength(1);
  return found[0]!;
}

function namesOf({ headers }: RecordedRequest): string[] {
  return headers.filter((_, index) => index % 2 === 0).map((name) => name.toLowerCase());
}

function valueIn({ headers }: RecordedRequest, name: string): string | undefined {
  const at = headers.findIndex((each, index) => index % 2 === 0 && each.toLowerCase() === name);
  return at === -1 ? undefined : headers[at + 1];
}

const transport = ['host', 'connection', 'content-length', 'content-type', 'accept', 'mcp-protocol-version'];

describe('requests that reach an upstream over HTTP', () => {
  test('a modern request carries the headers of MCP and none of the caller', async () => {
    const headers = {
      ...smuggled,
      'mcp-session-id': 'smuggled',
      'Mcp-Param-Region': 'eu',
      'mcp-param-x': '=?base64?w6k=?=',
    };
    await readToolText(callModern(attacked.web, token, 'echo', '{"marker":"m1"}', { headers }));
    const request = await recorded('"m1"');
    expect(namesOf(request).sort()).toEqual(
      [...transport, 'mcp-method', 'mcp-name', 'mcp-param-region', 'mcp-param-x'].sort(),
    );
    expect(valueIn(request, 'mcp-param-region')).toBe('eu');
    expect(valueIn(request, 'mcp-param-x')).toBe('=?base64?w6k=?=');
    expect(valueIn(request, 'mcp-name')).toBe('echo');
    expect(JSON.stringify(request.headers)).not.toMatch(/smuggled|ambs_/);
  });

  test('a handshake request carries the session id of the upstream and no header of the caller', async () => {
    const client = await connectHandshake(attacked.web, token);
    await readToolText(
      client.post(
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"marker":"m2"}}}',
        smuggled,
      ),
    );
    const request = await recorded('"m2"');
    expect(namesOf(request).sort()).toEqual([...transport, 'mcp-session-id'].sort());
    expect(valueIn(request, 'mcp-session-id')).not.toBe(client.transportId);
    expect(JSON.stringify(request.headers)).not.toMatch(/smuggled|ambs_/);
  });

  test('no request and no body carries the bearer token', async () => {
    const all = JSON.stringify(await attacked.recordedOverHttp());
    expect(all).not.toContain(token);
    expect(all).not.toContain('ambs_');
  });

  test("headers of the operator overrule the caller's", async () => {
    const headers = { 'mcp-param-region': 'eu' };
    await readToolText(callModern(attacked.ambit.mcp('keyed'), token, 'echo', '{"marker":"m3"}', { headers }));
    const request = await recorded('"m3"');
    expect(valueIn(request, 'authorization')).toBe('Bearer of-the-operator');
    expect(valueIn(request, 'mcp-param-region')).toBe('pinned');
    expect(namesOf(request).filter((name) => name === 'mcp-param-region')).toHaveLength(1);
  });

  test('a name that would break a header is encoded, and leads nowhere else', async () => {
    const encode = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
    const breaking = 'a\r\nx-injected: 1\r\n\r\nGET /recorded';
    const refused = { params: `"name":${JSON.stringify(breaking)}`, name: encode(breaking) };
    expect((await readAnswer(sendModern(attacked.web, token, refused))).error?.code).toBe(-32602);
    const name = 'a\u00e9: 1, x-injected: \u4e00';
    const encoded = encode(name);
    const params = `"name":${JSON.stringify(name)},"arguments":{"marker":"m4"}`;
    // The recorder knows no such tool and stays silent: the request is enough.
    const sent = sendModern(attacked.web, token, { params, name: encoded });
    // Looked for where it was written: a signed token may well contain two such letters.
    sent.catch(() => {});
    const arrived = async () => (await attacked.recordedOverHttp()).some(({ body }) => body.includes('"m4'));
    await expect.poll(arrived, patience).toBe(true);
    const request = await recorded('"m4');
    expect(valueIn(request, 'mcp-name')).toBe(encoded);
    expect(request.url).toBe('/mcp');
    expect(namesOf(request)).not.toContain('x-injected');
    sent.then(
      (got) => got.close(),
      () => {},
    );
  });
});

describe('answers of the upstream', () => {
  const ownHeaders = ['connection', 'content-length', 'content-type', 'date', 'keep-alive'];
  const streamHeaders = ['cache-control', 'connection', 'content-type', 'date', 'keep-alive', 'transfer-encoding'];

  function expectOwnHeaders(sent: Exchange): void {
    const allowed = new Set([...ownHeaders, ...streamHeaders, 'x-accel-buffering', 'mcp-session-id']);
    expect(Object.keys(sent.headers).filter((name) => !allowed.has(name))).toEqual([]);
  }

  test('carries no header of the upstream, in either era', async () => {
    const modern = await callModern(attacked.web, token, 'echo', '{}');
    expectOwnHeaders(modern);
    expect(modern.headers['mcp-session-id']).toBeUndefined();
    const client = await connectHandshake(attacked.web, token);
    expectOwnHeaders(await client.call('echo', '{}'));
    const upstreamSessions = (await attacked.recordedOverHttp()).map((each) => valueIn(each, 'mcp-session-id'));
    expect(upstreamSessions).not.toContain(client.transportId);
  });

  test.each([200, 400, 404, 409, 418, 429, 500])('not even with status %i', async (status) => {
    const body = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-31999,"message":"odd","data":{"n":1E5}}}';
    const headers = { 'retry-after': '9', location: 'http://elsewhere/', 'access-control-allow-origin': '*' };
    const args = JSON.stringify({ status, headers, body });
    const sent = await callModern(attacked.web, token, 'reply', args);
    expectOwnHeaders(sent);
    expect(await sent.rest()).toEqual([body.replace('$ID', '1')]);
  });

  // What the upstream wants of us as its client is not what we want of ours.
  test.each([
    [401, 'LOGIN_REQUIRED'],
    [403, 'UPSTREAM_FAILED'],
    [407, 'UPSTREAM_FAILED'],
  ] as const)(
    'an upstream that answers %i has refused the call; our own caller stays known: %s',
    async (status, code) => {
      const args = JSON.stringify({ status, body: '{"jsonrpc":"2.0","id":$ID,"error":{"code":1,"message":"log in"}}' });
      const sent = await callModern(attacked.web, token, 'reply', args);
      expect(sent.status).toBe(200);
      expectOwnHeaders(sent);
      expect((await sent.rest()).join()).toContain(code);
    },
  );

  test('a redirect is not followed', async () => {
    const args = JSON.stringify({
      status: 302,
      headers: { location: '/recorded', 'content-type': 'text/html' },
      body: '',
    });
    const before = (await attacked.recordedOverHttp()).length;
    expect((await (await callModern(attacked.web, token, 'reply', args)).rest()).join()).toContain('UPSTREAM_FAILED');
    expect((await attacked.recordedOverHttp()).length).toBe(before + 1);
  });
});
