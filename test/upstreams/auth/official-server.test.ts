import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  McpServer,
  OAuthError,
  OAuthErrorCode,
  requireBearerAuth,
} from '@modelcontextprotocol/server';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { expect, test } from 'vitest';
import { authorizationServer } from './authorization-server.ts';
import { later, logIn, loginScenes } from './login-scene.ts';

const on = loginScenes();

/** A server built with the official SDK, which asks for tokens by its own middleware. */
async function officialServer(issuer: string, jwksUri: string) {
  const keys = createRemoteJWKSet(new URL(jwksUri));
  const http = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => http.once('listening', resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
  const where = '/.well-known/oauth-protected-resource/mcp';
  const gate = requireBearerAuth({
    requiredScopes: ['read'],
    resourceMetadataUrl: new URL(where, url).href,
    expectedResource: new URL(url),
    verifier: {
      async verifyAccessToken(token) {
        const { payload } = await jwtVerify(token, keys, { issuer, audience: url }).catch(() => {
          throw new OAuthError(OAuthErrorCode.InvalidToken, 'no');
        });
        const scopes = String(payload['scope']).split(' ');
        return { token, clientId: 'x', scopes, expiresAt: payload.exp as number, resource: new URL(url) };
      },
    },
  });
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'official', version: '1' });
    server.registerTool('who', {}, async (context) => ({
      content: [{ type: 'text', text: `hello ${context.http?.authInfo?.scopes.join()}` }],
    }));
    return server;
  });
  const handle = toNodeHandler({
    async fetch(request: Request) {
      const auth = await gate(request);
      return auth instanceof Response ? auth : handler.fetch(request, { authInfo: auth });
    },
  });
  http.on('request', (request, response) => {
    if (request.url !== where) return void handle(request as Parameters<typeof handle>[0], response);
    const metadata = { resource: url, authorization_servers: [issuer], scopes_supported: ['read'] };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
  });
  return {
    url,
    async close() {
      await handler.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

test('P14: a server of the official SDK, to clients of both eras: refused, logged in, renewed', async () => {
  const as = on.closing(await authorizationServer({ tokenSeconds: 600 }));
  const far = on.closing(await officialServer(as.issuer, as.jwksUri));
  const gateway = await on.start({ notes: { url: far.url } });
  const before = await on.clientOf(gateway, 'ada', 'notes', 'handshake');
  expect(before.opened?.error?.message).toContain('LOGIN_REQUIRED');
  const modern = await on.clientOf(gateway, 'ada', 'notes');
  expect(await modern.call('who')).toContain('LOGIN_REQUIRED');
  const list = await (await on.clientOf(gateway, 'ada')).request('tools/list');
  expect(JSON.stringify(list.result?.['_meta'])).toMatch(/ambit\/unavailable.*notes.*LOGIN_REQUIRED/);
  // Whoever listed the tools before hears that there are others now.
  const early = await on.clientOf(gateway, 'ada', undefined, 'handshake');
  expect(await early.tools()).toEqual([]);
  const told = early.told('notifications/tools/list_changed');
  await logIn(gateway, 'ada');
  await told;
  expect(await early.tools()).toEqual(['notes__who']);
  const handshake = await on.clientOf(gateway, 'ada', 'notes', 'handshake');
  const all = await on.clientOf(gateway, 'ada');
  expect(await all.tools()).toEqual(['notes__who']);
  for (const client of [modern, handshake]) expect(await client.call('who')).toBe('hello read');
  later(700);
  for (const client of [handshake, modern]) expect(await client.call('who')).toBe('hello read');
  expect(await all.call('notes__who')).toBe('hello read');
  expect(as.asked.get('refresh_token')).toBe(1);
});
