import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type AuthorizationServer, authorizationServer, browse } from './authorization-server.ts';
import type { GuardedUpstream } from './guarded-upstream.ts';
import { isBack, later, logIn, loginScenes, port, registeredClient } from './login-scene.ts';

const on = loginScenes();
const [ada, eve] = [
  { userId: 'ada', server: 'notes' },
  { userId: 'eve', server: 'notes' },
];
const failed = { code: 'LOGIN_FAILED' };

/** A server that names the attacker's authorization server, whose metadata names this login page. */
function setTrap(far: GuardedUpstream, evil: AuthorizationServer, loginPage: string): void {
  far.metadata = { ...far.metadata, authorization_servers: [evil.issuer] };
  const body = {
    issuer: evil.issuer,
    authorization_endpoint: loginPage,
    token_endpoint: `${evil.issuer}/token`,
    registration_endpoint: `${evil.issuer}/reg`,
    revocation_endpoint: `${evil.issuer}/token/revocation`,
    code_challenge_methods_supported: ['S256'],
  };
  evil.instead = (path) => (path === '/.well-known/oauth-authorization-server' ? { status: 200, body } : undefined);
}

describe('what comes back from a browser', () => {
  test('a state is good once, for whom it was made, and for ten minutes', async () => {
    const { as, gateway } = await on.scene();
    const callback = await logIn(gateway, 'ada');
    await expect(gateway.logins.complete(callback, ada)).rejects.toMatchObject(failed);
    const second = await gateway.logins.start(ada, port);
    const stolen = await browse(second.authorizationUrl, isBack);
    await expect(gateway.logins.complete(stolen, eve)).rejects.toMatchObject(failed);
    await expect(gateway.logins.complete(stolen, ada)).rejects.toMatchObject(failed);
    const third = await gateway.logins.start(ada, port);
    const late = await browse(third.authorizationUrl, isBack);
    later(601);
    await expect(gateway.logins.complete(late, ada)).rejects.toMatchObject(failed);
    expect(gateway.logins.list()).toMatchObject([{ userId: 'ada' }]);
    // The authorization server refuses late codes too, so it matters that it was not asked.
    expect(as.asked.get('/token')).toBe(1);
  });

  test('another issuer, none, or another address to come back to: nothing is redeemed', async () => {
    const { as, gateway } = await on.scene();
    const changes: ((callback: URL) => void)[] = [
      (callback) => callback.searchParams.set('iss', 'https://evil.example'),
      (callback) => callback.searchParams.append('iss', 'https://evil.example'),
      (callback) => callback.searchParams.delete('iss'),
      (callback) => callback.searchParams.set('error', 'access_denied'),
      (callback) => callback.searchParams.append('state', 'another'),
      (callback) => {
        callback.pathname = '/callback/0123456789abcdef';
      },
      (callback) => {
        callback.hostname = 'localhost';
      },
    ];
    for (const change of changes) {
      const { authorizationUrl } = await gateway.logins.start(ada, port);
      const callback = new URL(await browse(authorizationUrl, isBack));
      change(callback);
      await expect(gateway.logins.complete(callback.href, ada)).rejects.toMatchObject(failed);
    }
    expect(as.asked.get('/token')).toBeUndefined();
    expect(gateway.logins.list()).toEqual([]);
  });

  test('mix-up: the code of an honest authorization server never reaches the one of another server', async () => {
    const { as: honest, gateway } = await on.scene();
    const evil = on.closing(await authorizationServer());
    const { far } = await on.scene();
    // The attacker's authorization server does not say who it is in its answers.
    setTrap(far, evil, `${evil.issuer}/auth`);
    const trap = await on.start({ notes: { url: far.url, era: 'modern' } });
    const attempt = await trap.logins.start(ada, port);
    const inner = await gateway.logins.start(ada, port);
    // It sends the browser on to the honest one, with the state and challenge of the login at its own.
    const forged = new URL(inner.authorizationUrl);
    for (const name of ['state', 'code_challenge']) {
      forged.searchParams.set(name, new URL(attempt.authorizationUrl).searchParams.get(name) as string);
    }
    const callback = new URL(await browse(forged.href, isBack));
    expect(callback.searchParams.get('code')).not.toBeNull();
    callback.searchParams.delete('iss');
    await expect(trap.logins.complete(callback.href, ada)).rejects.toMatchObject(failed);
    expect(evil.asked.get('/token')).toBeUndefined();
    expect(honest.asked.get('/token')).toBeUndefined();
  });
});

describe('S6: a server that sends users to an honest login page and keeps what comes back', () => {
  /** An honest authorization server, and a hostile one whose metadata names the login page of the honest one. */
  async function trap() {
    const { as: honest, far } = await on.guarded({ clients: [registeredClient], tokenSeconds: 600 });
    const evil = on.closing(await authorizationServer());
    setTrap(far, evil, `${honest.issuer}/auth`);
    const file = join(on.folder, 'client.secret');
    writeFileSync(file, registeredClient.client_secret, { mode: 0o600 });
    const oauth = { clientId: 'ambit-by-hand', clientSecretFile: file };
    return { honest, evil, far, oauth };
  }

  test('a client that was registered by hand logs in at its own issuer, whatever the server names', async () => {
    const { honest, evil, far, oauth } = await trap();
    const gateway = await on.start({
      notes: { url: far.url, era: 'modern', oauth: { ...oauth, issuer: honest.issuer } },
    });
    await logIn(gateway, 'ada');
    expect(honest.asked.get('/token')).toBe(1);
    expect(await (await on.clientOf(gateway, 'ada', 'notes')).call('read')).toBe('done: read');
    await gateway.logins.remove(ada);
    expect([...evil.asked.keys()]).toEqual([]);
  });

  test('without an issuer of the operator, a login page at another address is not used', async () => {
    const { evil, far } = await trap();
    const gateway = await on.start({ notes: { url: far.url, era: 'modern' } });
    const refusal = { ...failed, hint: expect.stringContaining('servers.notes.oauth.issuer') };
    await expect(gateway.logins.start(ada, port)).rejects.toMatchObject(refusal);
    expect(evil.asked.get('/reg')).toBeUndefined();
  });

  test('a login at another issuer than the operator now names is neither used, renewed nor told of', async () => {
    const { as, far, gateway: before } = await on.scene({ tokenSeconds: 600 });
    const other = on.closing(await authorizationServer());
    await logIn(before, 'ada');
    before.reload({
      version: 1,
      servers: { notes: { url: far.url, era: 'modern', oauth: { issuer: other.issuer } } },
    });
    const client = await on.clientOf(before, 'ada', 'notes');
    expect(await client.call('read')).toContain('LOGIN_REQUIRED');
    later(700);
    expect(await client.call('read')).toContain('LOGIN_REQUIRED');
    await before.logins.remove(ada);
    expect([as.asked.get('refresh_token'), as.asked.get('/token/revocation')]).toEqual([undefined, undefined]);
  });
});

describe('what a server says of its login', () => {
  test('what is not public, not https or no plain address is not asked', async () => {
    const { far, gateway } = await on.scene();
    const places = [
      'https://10.0.0.7/issuer',
      'https://169.254.169.254/latest',
      'https://[::ffff:169.254.169.254]/',
      'https://[fd00::1]/',
      'http://login.example.com/',
      'https://me:secret@login.example.com/',
      'file:///etc/passwd',
    ];
    for (const issuer of places) {
      far.metadata = { ...far.metadata, authorization_servers: [issuer] };
      const refusal = { ...failed, message: expect.stringMatching(/which is not allowed/) };
      await expect(gateway.logins.start(ada, port)).rejects.toMatchObject(refusal);
    }
  });

  test('tokens made for another server are not asked for', async () => {
    const { as, far, gateway } = await on.scene();
    for (const resource of ['https://bank.example.com/mcp', far.url.replace('/mcp', '/mc'), `${far.url}/deeper`, 7]) {
      far.metadata = { ...far.metadata, resource };
      await expect(gateway.logins.start(ada, port)).rejects.toMatchObject(failed);
    }
    expect(as.asked.get('/reg')).toBeUndefined();
  });

  test('an authorization server that calls itself otherwise, or does not protect codes, is left alone', async () => {
    const { as, gateway } = await on.scene();
    const told = {
      issuer: as.issuer,
      authorization_endpoint: `${as.issuer}/auth`,
      token_endpoint: `${as.issuer}/token`,
    };
    const pkce = { code_challenge_methods_supported: ['S256'] };
    const lies = [
      { ...told, ...pkce, issuer: 'https://bank.example.com' },
      told,
      { ...told, code_challenge_methods_supported: ['plain'] },
      { ...told, ...pkce, authorization_endpoint: 'javascript:alert(1)//' },
      { ...told, ...pkce, authorization_endpoint: 'http://login.example.com/' },
      { ...told, ...pkce, registration_endpoint: 'https://192.168.0.1/register' },
    ];
    for (const body of lies) {
      as.instead = (path) => (path.startsWith('/.well-known/') ? { status: 200, body } : undefined);
      await expect(gateway.logins.start(ada, port)).rejects.toMatchObject(failed);
    }
    expect(as.asked.get('/reg')).toBeUndefined();
  });

  test('the token a client came with is passed on to nobody', async () => {
    const { as, far, gateway } = await on.scene();
    const { token } = await gateway.createSession({ userId: 'ada' });
    const { url } = await gateway.listen({ port: 0 });
    const answer = await fetch(`${url}/mcp/notes`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'x', version: '1' } },
      }),
    });
    const { headers } = answer;
    expect(await answer.text()).toContain('LOGIN_REQUIRED');
    // It is a login of the user's at that server that is wanted, not one here: no client may take it for that.
    expect(headers.get('www-authenticate')).toBeNull();
    expect(answer.status).toBe(200);
    expect(far.offered.filter((each) => each !== undefined)).toEqual([]);
    expect([...as.asked.keys()]).toEqual([]);
  });
});
