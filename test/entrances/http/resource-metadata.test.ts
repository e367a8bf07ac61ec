import { request } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGateway } from '../../../src/index.ts';
import { callModern } from '../../journeys/raw-mcp-client.ts';
import { challengeOf, openJwtGateway } from './jwt-gateway.ts';

const open = () => openJwtGateway({ corp: { scopes: ['use'], permissions: { 'notes:write': 'notes.write' } } });
const wellKnown = '/.well-known/oauth-protected-resource';

let at: Awaited<ReturnType<typeof open>>;
beforeAll(async () => {
  at = await open();
});
afterAll(() => at.close());

test('where tokens are to be had is said in all forms, for servers that are there and for others', async () => {
  const { origin, keys } = at;
  for (const form of ['', '/mcp', '/mcp/notes', '/mcp/not-there']) {
    const answer = await fetch(`${origin}${wellKnown}${form}`);
    expect(await answer.json()).toEqual({
      resource: `${origin}${form === '' ? '/mcp' : form}`,
      authorization_servers: [keys('corp').issuer],
      scopes_supported: ['use', 'notes.write'],
      bearer_methods_supported: ['header'],
      resource_name: 'Ambit',
    });
  }
  for (const form of ['/', '/mcp/', '/mcp/a/b', '/api', 'x']) {
    expect((await fetch(`${origin}${wellKnown}${form}`)).status).toBe(404);
  }
  expect((await fetch(`${origin}${wellKnown}`, { method: 'POST', body: '{}' })).status).toBe(404);
});

test('a client that tries to register gets the advice to send a token, without quotes as OAuth demands', async () => {
  const answer = await fetch(`${at.origin}/register`, { method: 'POST', body: '{}' });
  const body = (await answer.json()) as { error_description: string };
  expect([answer.status, body.error_description]).toEqual([
    404,
    expect.stringMatching(/^[^"\\]*Bearer <token>[^"\\]*$/),
  ]);
});

test('every refusal says where, whatever was sent', async () => {
  const { url, origin, token } = at;
  const metadata = `resource_metadata="${origin}${wellKnown}/mcp/notes"`;
  const headers = { 'content-type': 'application/json' };
  const none = await fetch(url, { method: 'POST', headers, body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' });
  expect([none.status, none.headers.get('www-authenticate')]).toEqual([
    401,
    `Bearer realm="ambit", scope="use", ${metadata}`,
  ]);
  const bad = await callModern(url, await token('corp', { aud: 'other' }), 'read', '{}');
  expect(challengeOf(bad)).toEqual([401, `Bearer realm="ambit", error="invalid_token", scope="use", ${metadata}`]);
  const stream = await fetch(url, { headers: { accept: 'text/event-stream', 'mcp-session-id': 'x' } });
  expect([stream.status, stream.headers.get('www-authenticate')]).toEqual([401, expect.stringContaining(metadata)]);
});

test.each(['localhost:99999', 'localhost:65536', '127.0.0.1:99999'])(
  'S7: the Host %s is refused, and the gateway goes on',
  async (host) => {
    const { hostname, port } = new URL(at.origin);
    for (const path of [wellKnown, '/mcp', '/healthz']) {
      const status = await new Promise((resolve, reject) => {
        const ask = request({ hostname, port, path, headers: { host } }, (answer) => {
          answer.resume();
          resolve(answer.statusCode);
        });
        ask.on('error', reject).end();
      });
      expect([path, status]).toEqual([path, 403]);
    }
    expect((await fetch(`${at.origin}/healthz`)).status).toBe(200);
  },
);

test('behind a public address, it is that address whose tokens are accepted', async () => {
  const other = await openJwtGateway({ corp: {} }, { listen: { publicUrl: 'https://gw.example' } });
  const answer = await fetch(`${other.origin}${wellKnown}/mcp/notes`);
  expect(await answer.json()).toMatchObject({ resource: 'https://gw.example/mcp' });
  const refused = await callModern(other.url, 'a.b.c', 'read', '{}');
  expect(refused.headers['www-authenticate']).toContain(`"https://gw.example${wellKnown}/mcp/notes"`);
  await other.close();
});

test('users of an identity provider are several: nobody has a direct session unless the operator says so', async () => {
  await expect(at.gateway.createSession({ trustLevel: 'direct' })).rejects.toMatchObject({
    code: 'TRUST_REQUIRED',
    rule: 'sessions.allowDirect',
  });
});

test('without an identity provider nothing is said', async () => {
  const log = { info() {}, warn() {} };
  const gateway = await createGateway({ config: { version: 1, store: { kind: 'memory' } }, log });
  const { origin } = new URL((await gateway.listen({ port: 0 })).url);
  expect((await fetch(`${origin}${wellKnown}`)).status).toBe(404);
  const refused = await callModern(`${origin}/mcp`, 'a.b.c', 'x', '{}');
  expect(challengeOf(refused)).toEqual([401, 'Bearer realm="ambit"']);
  await gateway.close();
});
