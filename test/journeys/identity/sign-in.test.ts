import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { decodeJwt } from 'jose';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openJwtGateway } from '../../entrances/http/jwt-gateway.ts';
import { callModern } from '../raw-mcp-client.ts';
import { startAuthorizationServer } from './authorization-server.ts';
import { createClientV1, createClientV2, createOAuthProvider } from './oauth-clients.ts';

/**
 * The configuration of the gateway names the address that clients know it by, before the gateway listens. So they reach it
 * by this one, which passes every byte on. A free port that is closed and taken again may be somebody else's by then.
 */
async function openFrontDoor() {
  const sockets = new Set<Socket>();
  let behind = 0;
  const server = createServer((socket) => {
    const onward = connect(behind, '127.0.0.1');
    socket.pipe(onward).pipe(socket);
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy()).on('close', () => sockets.delete(one) && other.destroy());
    }
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    leadTo(origin: string) {
      behind = Number(new URL(origin).port);
    },
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

let issuer: Awaited<ReturnType<typeof startAuthorizationServer>>;
let gateway: Awaited<ReturnType<typeof openJwtGateway<'corp'>>>;
let door: Awaited<ReturnType<typeof openFrontDoor>>;
let url = '';
beforeAll(async () => {
  issuer = await startAuthorizationServer('use notes.write');
  door = await openFrontDoor();
  url = `${door.origin}/mcp/notes`;
  const corp = {
    issuer: issuer.issuer,
    jwksUri: issuer.jwksUri,
    audience: [`${door.origin}/mcp`],
    scopes: ['use'],
    permissions: { 'notes:write': 'notes.write' },
  };
  gateway = await openJwtGateway({ corp });
  door.leadTo(gateway.origin);
});
afterAll(async () => {
  door.close();
  await gateway.close();
  issuer.close();
});

const clients = {
  'SDK v1': createClientV1,
  'SDK v2, handshake': (url: string, host: ReturnType<typeof createOAuthProvider>) =>
    createClientV2(url, host, 'legacy'),
  'SDK v2, modern': (url: string, host: ReturnType<typeof createOAuthProvider>) => createClientV2(url, host, 'auto'),
};

describe.each(Object.entries(clients))('%s', (_name, make) => {
  test('finds the authorization server in the refusal of Ambit, signs in there, and is served', async () => {
    const host = createOAuthProvider();
    const client = make(url, host);
    await expect(client.connect()).rejects.toThrow(/unauthorized/i);
    const sentTo = host.kept.sentTo as URL;
    expect(sentTo.origin).toBe(issuer.issuer);
    expect(sentTo.searchParams.get('resource')).toBe(`${door.origin}/mcp`);
    expect(sentTo.searchParams.get('scope')?.split(' ')).toContain('use');
    await client.finish(await issuer.signIn(sentTo));
    await client.connect();
    expect(JSON.parse(await client.call('read'))).toMatchObject({ userId: 'corp|alice', permissions: [] });
    expect(decodeJwt(host.kept.tokens?.access_token ?? '')).toMatchObject({ aud: `${door.origin}/mcp`, sub: 'alice' });

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
  const host = createOAuthProvider();
  const client = createClientV1(url, host);
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
  expect((await callModern(url, token, 'read', '{}')).status).toBe(401);
});
