import { describe, expect, test, vi } from 'vitest';
import { later, logIn, loginScenes } from './login-scene.ts';

const on = loginScenes();

describe('a server behind a real authorization server', () => {
  test('P14: whoever has not logged in is told how; who has is let in with a token of their own', async () => {
    const { as, far, gateway } = await on.scene();
    const [ada, eve] = [await on.clientOf(gateway, 'ada', 'notes'), await on.clientOf(gateway, 'eve', 'notes')];
    const refusal = await ada.call('read');
    expect(refusal).toContain('LOGIN_REQUIRED');
    expect(refusal).toContain('ambit login notes --user ada');
    await logIn(gateway, 'ada');
    expect(await ada.call('read')).toBe('done: read');
    expect(await eve.call('read')).toContain('LOGIN_REQUIRED');
    expect(gateway.logins.list()).toMatchObject([
      { userId: 'ada', server: 'notes', state: 'active', issuer: as.issuer },
    ]);
    // An agent SDK that calls the server itself would have to be shown the token.
    expect(await gateway.resolve(ada.session.id)).toMatchObject({ mcpServers: {}, servers: [{ rule: 'credentials' }] });
    expect(Object.keys((await gateway.resolve(eve.session.id)).mcpServers)).toEqual(['notes']);
    const [token = ''] = far.tokens;
    const told = JSON.stringify(gateway.logins.list()) + on.lines.join('') + on.journal();
    expect(token).not.toBe('');
    expect(told).not.toContain(token);
  });

  test('P14: fifty calls of two gateways at once renew it once, ahead of its end', async () => {
    const { as, far, gateway } = await on.scene({ tokenSeconds: 600 });
    const other = await on.start({ notes: { url: far.url, era: 'modern' } });
    await logIn(gateway, 'ada');
    const clients = [await on.clientOf(gateway, 'ada', 'notes'), await on.clientOf(other, 'ada', 'notes')];
    for (const client of clients) expect(await client.call('read')).toBe('done: read');
    later(590);
    far.tokens.splice(0);
    const calls = Array.from({ length: 50 }, (_, i) => clients[i % 2]?.call('read'));
    expect(new Set(await Promise.all(calls))).toEqual(new Set(['done: read']));
    expect(as.asked.get('refresh_token')).toBe(1);
    expect(new Set(far.tokens).size).toBe(1);
    later(590);
    expect(await clients[1]?.call('read')).toBe('done: read');
    expect(as.asked.get('refresh_token')).toBe(2);
    vi.useRealTimers();
    await vi.waitFor(() => expect(on.journal().match(/login-renewed/g)).toHaveLength(2), 50_000);
  });

  test('a refused token is renewed once for all its users', async () => {
    const { as, far, gateway } = await on.scene();
    await logIn(gateway, 'ada');
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    await ada.call('read');
    far.refused.add(far.tokens[0] as string);
    // So young, it is not refused for its age: nothing is renewed.
    expect(await ada.call('read')).toContain('LOGIN_REQUIRED');
    later(60);
    const calls = await Promise.all(Array.from({ length: 20 }, () => ada.call('read')));
    expect(new Set(calls)).toEqual(new Set(['done: read']));
    expect(as.asked.get('refresh_token')).toBe(1);
  });

  test('a revoked login is lost: the user logs in again and goes on', async () => {
    const { as, far, gateway } = await on.scene({ tokenSeconds: 600 });
    await logIn(gateway, 'ada');
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    expect(await ada.call('read')).toBe('done: read');
    as.instead = (path) => (path === '/token' ? { status: 400, body: { error: 'invalid_grant' } } : undefined);
    later(650);
    expect(await ada.call('read')).toContain('LOGIN_REQUIRED');
    expect(await ada.call('read')).toContain('ambit login notes --user ada');
    expect(gateway.logins.list()).toMatchObject([{ state: 'lost' }]);
    expect(as.asked.get('/token')).toBe(2);
    as.instead = () => undefined;
    await logIn(gateway, 'ada');
    expect(await ada.call('read')).toBe('done: read');
    vi.useRealTimers();
    await vi.waitFor(() => expect(on.journal()).toContain('login-lost'), 50_000);
    expect(far.offered.filter((each) => each !== undefined)).not.toContain('Bearer undefined');
  });

  test('no login is lost while an authorization server is unavailable for a while', async () => {
    const { as, gateway } = await on.scene({ tokenSeconds: 600 });
    await logIn(gateway, 'ada');
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    as.instead = (path) => (path === '/token' ? { status: 503, body: {} } : undefined);
    later(590);
    expect(await ada.call('read')).toBe('done: read');
    later(20);
    expect(await ada.call('read')).toContain('UPSTREAM_FAILED');
    as.instead = () => undefined;
    later(10);
    expect(await ada.call('read')).toBe('done: read');
    expect(gateway.logins.list()).toMatchObject([{ state: 'active' }]);
  });
});
