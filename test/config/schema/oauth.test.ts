import { expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';

const load = (server: object) =>
  loadConfig({ text: JSON.stringify({ version: 1, servers: { notes: server } }), file: '/etc/ambit/ambit.yaml' });

test('what a server does not say of its login can be said', async () => {
  const issuer = 'https://sso.corp';
  const oauth = { issuer, clientId: 'x', clientSecretFile: 'x.secret', hosts: ['sso.corp:443'] };
  const { config } = await load({ url: 'https://notes.example.com/mcp', oauth });
  expect(config.servers['notes']).toMatchObject({
    oauth: { issuer, clientId: 'x', clientSecretFile: '/etc/ambit/x.secret', hosts: ['sso.corp:443'] },
  });
});

test.each([
  [{ command: 'x', oauth: {} }, /only for servers with a url/],
  [{ url: 'https://a.example', oauth: { clientSecretFile: 'x' } }, /needs clientId/],
  [{ url: 'https://a.example', oauth: { clientId: 'x' } }, /clientId needs issuer/],
  [{ url: 'https://a.example', oauth: { issuer: 'http://sso.corp' } }, /https:/],
  [{ url: 'https://a.example', oauth: { scopes: ['a b'] } }, /without spaces/],
  [{ url: 'https://a.example', oauth: { hosts: ['https://sso.corp'] } }, /host:port/],
  [{ url: 'https://a.example', oauth: { clientSecret: 'written down' } }, /clientSecretFile|unknown key/],
])('%j is refused', async (server, why) => {
  await expect(load(server)).rejects.toThrow(why);
});
