import { createServer } from 'node:net';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { jwtGateway } from '../../entrances/jwt-gateway.ts';
import { callModern } from '../forgery/speaking.ts';
import { authorizationServer } from './authorization-server.ts';
import { clientV1, clientV2, signingIn } from './oauth-clients.ts';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { readonly port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

let issuer: Awaited<ReturnType<typeof authorizationServer>>;
let at: Awaited<ReturnType<typeof jwtGateway<'corp'>>>;
beforeAll(async () => {
  issuer = await authorizationServer('use notes.write');
  const port = await freePort();
  const corp = {
    issuer: issuer.issuer,
    jwksUri: issuer.jwksUri,
    audience: [`http://127.0.0.1:${port}/mcp`],
    scopes: ['use'],
    permissions: { 'notes:write': 'notes.write' },
  };
  at = await jwtGateway({ corp }, {}, port);
});
afterAll(async () => {
  await at.close();
  issuer.close();
});

const clients = {
  'SDK v1': clientV1,
  'SDK v2, handshake': (url: string, host: ReturnType<typeof signingIn>) => clientV2(url, host, 'legacy'),
  'SDK v2, modern': (url: string, host: ReturnType<typeof signingIn>) => clientV2(url, host, 'auto'),
};

describe.each(Object.entries(clients))('%s', (_name, make) => {
  test('finds the authorization server by our refusal, signs in there, and is served', async () => {
    const host = signingIn();
    const client = make(at.url, host);
    await expect(client.connect()).rejects.toThrow(/unauthorized/i);
    const sentTo = host.kept.sentTo as URL;
    expect(sentTo.origin).toBe(issuer.issuer);
    expect(sentTo.searchParams.get('resource')).toBe(`${at.origin}/mcp`);
    expect(sentTo.searchParams.get('scope')?.split(' ')).toContain('use');
    await client.finish(await issuer.signIn(sentTo));
    await client.connect();
    expect(JSON.parse(await client.call('read'))).toMatchObject({ userId: 'corp|alice', permissions: [] });
    expect(decodeJwt(host.kept.tokens?.access_token ?? '')).toMatchObject({ aud: `${at.origin}/mcp`, sub: 'alice' });

    // The one scope that the other tool needs is asked for when it is called.
    await expect(client.call('write')).rejects.toThrow();
    const again = host.kept.sentTo as URL;
    expect(again.searchParams.get('scope')?.split(' ').sort()).toEqual(expect.arrayContaining(['notes.write', 'use']));
    await client.finish(await issuer.signIn(again));
    expect(JSON.parse(await client.call('write'))).toMatchObject({ permissions: ['notes:write'] });
    await client.close();
  });
});

test('a token of the same server for another resource is refused', async () => {
  const host = signingIn();
  const client = clientV1(at.url, host);
  await expect(client.connect()).rejects.toThrow();
  const elsewhere = new URL((host.kept.sentTo as URL).href);
  elsewhere.searchParams.set('resource', 'https://elsewhere.example/mcp');
  const code = (await issuer.signIn(elsewhere)).get('code') ?? '';
  const answer = await fetch(`${issuer.issuer}/token`, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      client_id: 'mcp-client',
      redirect_uri: 'http://127.0.0.1:1/callback',
      code_verifier: host.kept.verifier ?? '',
      resource: 'https://elsewhere.example/mcp',
    }),
  });
  const { access_token: token } = (await answer.json()) as { readonly access_token: string };
  expect(decodeJwt(token).aud).toBe('https://elsewhere.example/mcp');
  expect((await callModern(at.url, token, 'read', '{}')).status).toBe(401);
});
