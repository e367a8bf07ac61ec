import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { pathWithoutBwrap } from '../../needs/bwrap.ts';
import { canChange, ordinary, own } from '../../workspaces/saferoot/accounts.ts';
import { type Exchange, sendRaw } from '../http-exchange.ts';
import { bearerHeader, connectHandshake, readAnswer, readToolText } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
const json = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const initialize =
  '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}';
const call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}';

beforeAll(async () => {
  const config = (url: string) => ({
    auth: { anonymous: 'loopback' },
    servers: { web: { url, trust: ['direct', 'sandboxed'] } },
  });
  attacked = await startRecordedGateway(config, { PATH: pathWithoutBwrap });
});

afterAll(() => attacked?.stop());

function send(url: string, body: string, headers: Record<string, string> = {}): Promise<Exchange> {
  return sendRaw(url, { headers: { ...json, ...headers }, body });
}

test('a caller without a credential is sandboxed, and without a sandbox gets no process', async () => {
  const { error } = await readAnswer(send(attacked.pipe, initialize));
  expect(error).toMatchObject({ data: { code: 'SANDBOX_UNAVAILABLE' } });
});

test('a transport session opened with a token cannot be used without it', async () => {
  const { token } = await attacked.open();
  const client = await connectHandshake(attacked.pipe, token);
  expect((await send(attacked.pipe, call, { 'mcp-session-id': client.transportId })).status).toBe(404);
  expect(await readToolText(client.call('echo', '{}'))).toContain('"echo"');
});

test('no session with a token can be named like the anonymous user, whose transport sessions anyone may use', async () => {
  await expect(attacked.open({ userId: 'anonymous' })).rejects.toThrow(/REQUEST_INVALID/);
});

test('a transport session opened without a credential is not raised by a token', async () => {
  const opened = await send(attacked.web, initialize);
  const transport = { 'mcp-session-id': opened.headers['mcp-session-id'] as string };
  expect((await send(attacked.web, call, transport)).status).toBe(200);
  const { token } = await attacked.open();
  expect((await send(attacked.web, call, { ...transport, ...bearerHeader(token) })).status).toBe(404);
});

// Where nobody can become somebody else, what is left to see is that our own account is served.
const [account, expected] = canChange ? [ordinary, '401 another user account'] : [own, '200'];
test(`S2: without a credential only the account of the gateway is served: ${account.uid} gets ${expected}`, async () => {
  const script = `const [url, headers, body] = JSON.parse(process.argv[1]);
    const answer = await fetch(url, { method: 'POST', headers, body });
    console.log([answer.status, .../another user account/.exec(await answer.text()) ?? []].join(' '));`;
  const args = ['--input-type=module', '-e', script, JSON.stringify([attacked.web, json, initialize])];
  const { stdout } = await promisify(execFile)(process.execPath, args, { ...account, cwd: '/' });
  expect(stdout.trim()).toBe(expected);
});

test('an invalid credential is refused, not treated as a missing one', async () => {
  expect((await send(attacked.pipe, initialize, bearerHeader('nonsense'))).status).toBe(401);
});
