import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { authorizationServer, browse } from './authorization-server.ts';
import { guardedUpstream } from './guarded-upstream.ts';
import { isBack, later, logIn, loginScenes, port, registeredClient } from './login-scene.ts';

const on = loginScenes();

describe('a login that has changed', () => {
  test('when the server wants more scopes, the next login asks for all of them', async () => {
    const { far, gateway } = await on.scene();
    far.metadata = { ...far.metadata, scopes_supported: ['read'] };
    await logIn(gateway, 'ada');
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    expect(await ada.call('read')).toBe('done: read');
    const refusal = await ada.call('write');
    expect(refusal).toContain('LOGIN_REQUIRED');
    expect(refusal).toContain('requires more permissions than the user has granted');
    expect(await ada.call('read')).toBe('done: read');
    expect(gateway.logins.list()).toMatchObject([{ state: 'wanted' }]);
    const { authorizationUrl } = await gateway.logins.start({ userId: 'ada', server: 'notes' }, port);
    expect(new URL(authorizationUrl).searchParams.get('scope')?.split(' ')).toEqual(
      expect.arrayContaining(['read', 'write']),
    );
    await gateway.logins.complete(await browse(authorizationUrl, isBack), { userId: 'ada', server: 'notes' });
    expect(await ada.call('write')).toBe('done: write');
  });

  test('removing a login revokes its tokens and closes the links that use it', async () => {
    const { as, gateway } = await on.scene();
    await logIn(gateway, 'ada');
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    expect(await ada.call('read')).toBe('done: read');
    expect(await gateway.logins.remove({ userId: 'ada', server: 'notes' })).toBe(true);
    expect(as.asked.get('/token/revocation')).toBe(2);
    expect(await ada.call('read')).toContain('LOGIN_REQUIRED');
    expect(await gateway.logins.remove({ userId: 'ada', server: 'notes' })).toBe(false);
  });

  test('a server of the same name at another address does not get the token', async () => {
    const { as, far, gateway } = await on.scene();
    await logIn(gateway, 'ada');
    const other = on.closing(await guardedUpstream(as.issuer, as.jwksUri));
    await gateway.reload({
      version: 1,
      sessions: { defaultTrust: 'direct' },
      servers: { notes: { url: other.url, era: 'modern' } },
    });
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    expect(await ada.call('read')).toContain('LOGIN_REQUIRED');
    expect(other.offered.filter((each) => each !== undefined)).toEqual([]);
    expect(far.tokens).toEqual([]);
  });

  test('a server with another authorization server needs a new login', async () => {
    const { as, far, gateway } = await on.scene();
    await logIn(gateway, 'ada');
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    await ada.call('read');
    far.refused.add(far.tokens[0] as string);
    const next = on.closing(await authorizationServer());
    far.metadata = { ...far.metadata, authorization_servers: [next.issuer] };
    later(60);
    expect(await ada.call('read')).toContain('LOGIN_REQUIRED');
    expect(as.asked.get('refresh_token')).toBeUndefined();
    expect(gateway.logins.list()).toMatchObject([{ state: 'lost' }]);
  });
});

test('a client that was registered by hand, with its secret', async () => {
  const { as, far } = await on.guarded({ clients: [registeredClient], tokenSeconds: 600 });
  const file = join(on.folder, 'client.secret');
  const unregistered = await on.start({ notes: { url: far.url } });
  await expect(unregistered.logins.start({ userId: 'ada', server: 'notes' }, port)).rejects.toMatchObject({
    hint: expect.stringContaining('servers.notes.oauth.clientId'),
  });
  const oauth = { issuer: as.issuer, clientId: 'ambit-by-hand', clientSecretFile: file, scopes: ['write'] };
  const gateway = await on.start({ notes: { url: far.url, era: 'modern', oauth } });
  await expect(logIn(gateway, 'ada')).rejects.toMatchObject({ code: 'LOGIN_FAILED' });
  writeFileSync(file, registeredClient.client_secret, { mode: 0o644 });
  await expect(logIn(gateway, 'ada')).rejects.toMatchObject({ code: 'CONFIG_INVALID' });
  chmodSync(file, 0o600);
  await logIn(gateway, 'ada');
  const ada = await on.clientOf(gateway, 'ada', 'notes');
  expect(await ada.call('write')).toBe('done: write');
  later(700);
  expect(await ada.call('write')).toBe('done: write');
  expect(as.asked.get('refresh_token')).toBe(1);
});
