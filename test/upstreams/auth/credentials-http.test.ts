import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { startEchoUpstream } from '../../gateway/echoing-upstream.ts';
import { credentialGateways, secret } from './credential-gateway.ts';

const on = credentialGateways();

describe('in a header over HTTP', () => {
  test('L10: each request carries the user’s own, whatever client or configuration say', async () => {
    const far = on.closing(await startEchoUpstream());
    const gateway = await on.start({
      search: { url: far.url, era: 'modern', headers: { authorization: 'Bearer shared', 'X-Api-Key': 'operator' } },
    });
    await gateway.credentials.set({ userId: 'ada', server: 'search', header: 'Authorization' }, `Bearer ${secret}`);
    const [ada, eve] = [await on.clientOf(gateway, 'ada', 'search'), await on.clientOf(gateway, 'eve', 'search')];
    expect(await ada.call('any')).toBe(`Bearer ${secret}|operator`);
    expect(await eve.call('any')).toBe('Bearer shared|operator');
    for (const { headers } of far.asked) expect(headers.authorization?.split(',')).toHaveLength(1);
    await gateway.credentials.set({ userId: 'ada', server: 'search', header: 'AUTHORIZATION' }, 'Bearer two');
    expect(await ada.call('any')).toBe('Bearer two|operator');
    await gateway.credentials.remove({ userId: 'ada', server: 'search', header: 'authorization' });
    expect(await ada.call('any')).toBe('Bearer shared|operator');
    expect(gateway.credentials.list()).toEqual([]);
  });

  test('a client cannot bring the header itself', async () => {
    const far = on.closing(await startEchoUpstream());
    const gateway = await on.start({ search: { url: far.url, era: 'modern' } });
    await gateway.credentials.set({ userId: 'ada', server: 'search', header: 'Authorization' }, 'Bearer own');
    const { token } = await gateway.createSession({ userId: 'ada' });
    const { url } = await gateway.listen({ port: 0 });
    const answer = await fetch(`${url}/mcp/search`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'any',
        'x-api-key': 'mine',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: {
          name: 'any',
          arguments: {},
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    });
    expect(await answer.text()).toContain('"text":"Bearer own|"');
    expect(JSON.stringify(far.asked)).not.toContain(token);
  });

  test('a redirect is not followed: nobody else gets it', async () => {
    const elsewhere = on.closing(await startEchoUpstream());
    const redirecting = createServer((_request, response) => {
      response.writeHead(307, { location: elsewhere.url }).end();
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => redirecting.once('listening', resolve));
    on.closing(redirecting);
    const { port } = redirecting.address() as AddressInfo;
    const gateway = await on.start({ search: { url: `http://127.0.0.1:${port}/mcp`, era: 'modern' } });
    await gateway.credentials.set({ userId: 'ada', server: 'search', header: 'Authorization' }, secret);
    const ada = await on.clientOf(gateway, 'ada', 'search');
    const words = await ada.call('any');
    expect(words).toContain('UPSTREAM_FAILED');
    expect(words).not.toContain(secret);
    expect(elsewhere.asked).toEqual([]);
  });

  test('what a server offers one user is not shown to another', async () => {
    const far = on.closing(await startEchoUpstream());
    const gateway = await on.start({ search: { url: far.url, era: 'modern' } });
    await gateway.credentials.set({ userId: 'ada', server: 'search', header: 'Authorization' }, 'ada');
    await gateway.credentials.set({ userId: 'eve', server: 'search', header: 'Authorization' }, 'eve');
    const users = ['ada', 'eve', 'tom', 'ada'];
    const clients = await Promise.all(users.map((user) => on.clientOf(gateway, user)));
    const lists: string[][] = [];
    for (const client of clients) lists.push(await client.tools());
    expect(lists).toEqual(['ada', 'eve', 'nobody', 'ada'].map((user) => [`search__for-${user}`]));
  });

  test('an agent SDK gets no entry that would show it', async () => {
    const far = on.closing(await startEchoUpstream());
    const gateway = await on.start({ search: { url: far.url, era: 'modern' } });
    await gateway.credentials.set({ userId: 'ada', server: 'search', header: 'x-api-key' }, secret);
    const [ada, eve] = [await gateway.createSession({ userId: 'ada' }), await gateway.createSession({ userId: 'eve' })];
    expect(await gateway.resolve(ada.id)).toMatchObject({
      mcpServers: {},
      servers: [{ available: false, rule: 'credentials' }],
    });
    expect(Object.keys((await gateway.resolve(eve.id)).mcpServers)).toEqual(['search']);
  });
});
