import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  bearerHeader,
  callModern,
  connectHandshake,
  readAnswer,
  readToolText,
  sendModern,
} from '../../journeys/raw-mcp-client.ts';
import { challengeOf, openJwtGateway } from './jwt-gateway.ts';

const open = () =>
  openJwtGateway(
    {
      plain: { clockToleranceSeconds: 0 },
      steps: { scopes: ['use'], permissions: { 'notes:write': 'notes.write' } },
      other: { permissions: { 'other:write': 'x' } },
      roles: { scopes: ['use'], roles: { map: { lead: { trust: 'direct' }, dev: {} }, admin: ['ops'] } },
      several: { roles: { map: { lead: { trust: 'direct', workspaces: ['a'] }, dev: {} } } },
      away: {},
    },
    {
      workspaces: {
        a: { path: import.meta.dirname, trust: 'direct' },
        b: { path: import.meta.dirname, trust: 'direct' },
      },
      sessions: { defaultTrust: 'direct', allowDirect: 'always' },
    },
  );
const told = async (sent: Parameters<typeof readToolText>[0]) =>
  JSON.parse(await readToolText(sent)) as Record<string, unknown>;
const read = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}';

let at: Awaited<ReturnType<typeof open>>;
beforeAll(async () => {
  // The clock stands still unless a test moves it: however slow the machine is, a token holds as long as the test says.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
  at = await open();
});
afterAll(async () => {
  await at.close();
  vi.useRealTimers();
});

/** An end for a token, in seconds. */
const soon = () => Math.floor(Date.now() / 1000) + 10;
const goTo = (seconds: number) => vi.setSystemTime(seconds * 1000);

describe('scopes', () => {
  test('a call that lacks one is told all of them, and goes through with them in the same session', async () => {
    const { url, token } = at;
    const [few, more] = [await token('steps', { scope: 'use' }), await token('steps', { scope: 'use notes.write' })];
    const first = await told(callModern(url, few, 'read', '{}'));
    const refused = await callModern(url, few, 'write', '{}');
    const scopes = 'error="insufficient_scope", scope="use notes.write"';
    expect(challengeOf(refused)).toEqual([403, expect.stringContaining(scopes)]);
    expect(await told(callModern(url, more, 'write', '{}'))).toEqual({ ...first, permissions: ['notes:write'] });
    // Whatever a better token brought is gone with it.
    expect((await callModern(url, few, 'write', '{}')).status).toBe(403);
    expect(await told(callModern(url, few, 'read', '{}'))).toEqual({ ...first, permissions: [] });
  });

  test('the same in the handshake era, at the address of one server and of all', async () => {
    const { url, origin, token } = at;
    const [few, more] = [await token('steps', { scope: 'use' }), await token('steps', { scope: 'use notes.write' })];
    for (const [address, name] of [
      [url, 'write'],
      [`${origin}/mcp`, 'notes__write'],
    ] as const) {
      const client = await connectHandshake(address, few);
      const body = read.replace('"read"', JSON.stringify(name));
      const refused = await client.post(body);
      expect(challengeOf(refused)).toEqual([403, expect.stringContaining('scope="use notes.write"')]);
      expect(await told(client.post(body, bearerHeader(more)))).toMatchObject({ permissions: ['notes:write'] });
      expect((await client.post(body)).status).toBe(403);
    }
  });

  test('a tool that a scope would open is listed; one that it would not is refused as ever', async () => {
    const { url, token } = at;
    const listed = async (each: string) =>
      JSON.stringify(await readAnswer(sendModern(url, each, { method: 'tools/list' })));
    expect(await listed(await token('steps', { scope: 'use' }))).toContain('"write"');
    const other = await token('other', { scope: 'x' });
    expect(await readToolText(callModern(url, other, 'write', '{}'))).toContain('PERMISSION_DENIED');
    expect(await listed(other)).not.toContain('"write"');
  });

  test('a session that was opened with the permission has it only with the scope', async () => {
    const { url, token, gateway } = at;
    const permissions = ['notes:write', 'kept'];
    const { id } = await gateway.createSession({ userId: 'steps|alice', permissions, trustLevel: 'sandboxed' });
    const meta = `"ambit/use-session":${JSON.stringify(id)}`;
    const few = await token('steps', { scope: 'use' });
    expect((await callModern(url, few, 'write', '{}', { meta })).status).toBe(403);
    const own = await told(callModern(url, few, 'read', '{}', { meta }));
    expect(own).toMatchObject({ sessionId: id, permissions: ['kept'] });
  });

  test('a token without those that all need is of no use', async () => {
    const { url, token } = at;
    const few = await callModern(url, await token('steps', { scope: 'notes.write' }), 'read', '{}');
    const scopes = 'Bearer realm="ambit", error="insufficient_scope", scope="use", resource_metadata=';
    expect(challengeOf(few)).toEqual([403, expect.stringContaining(scopes)]);
    await expect(connectHandshake(url, await token('steps'))).rejects.toThrow('403');
  });
});

describe('sessions', () => {
  test('are of the user that the token names, and of nobody else', async () => {
    const { url, token } = at;
    const [alice, bob] = [await token('plain'), await token('plain', { sub: 'bob' })];
    const hers = await told(callModern(url, alice, 'read', '{}'));
    const his = await told(callModern(url, bob, 'read', '{}'));
    expect([hers['userId'], his['userId'], hers['trustLevel']]).toEqual(['plain|alice', 'plain|bob', 'sandboxed']);
    expect(hers['sessionId']).not.toBe(his['sessionId']);
    const meta = `"ambit/use-session":${JSON.stringify(hers['sessionId'])}`;
    expect(await readToolText(callModern(url, bob, 'read', '{}', { meta }))).toContain('SESSION_NOT_FOUND');
    // The same subject of another issuer is somebody else.
    const other = await token('other');
    expect(await readToolText(callModern(url, other, 'read', '{}', { meta }))).toContain('SESSION_NOT_FOUND');
    const client = await connectHandshake(url, alice);
    expect((await client.post(read, bearerHeader(bob))).status).toBe(404);
    const renewed = await token('plain', { jti: 'renewed' });
    expect(await told(client.post(read, bearerHeader(renewed)))).toMatchObject({ userId: 'plain|alice' });
  });

  test('above the roles of the token now presented are out of reach', async () => {
    const { url, token } = at;
    const of = (role: string) => token('roles', { roles: [role], scope: 'use' });
    const [lead, dev, ops] = [await of('lead'), await of('dev'), await of('ops')];
    const client = await connectHandshake(url, lead);
    const high = await told(client.post(read));
    expect(high['trustLevel']).toBe('direct');
    expect((await client.post(read, bearerHeader(dev))).status).toBe(404);
    const meta = `"ambit/use-session":${JSON.stringify(high['sessionId'])}`;
    expect(await readToolText(callModern(url, dev, 'read', '{}', { meta }))).toContain('SESSION_NOT_FOUND');
    expect(await told(callModern(url, dev, 'read', '{}'))).toMatchObject({ trustLevel: 'sandboxed' });
    expect(await readToolText(callModern(url, ops, 'read', '{}'))).toContain('PERMISSION_DENIED');
  });

  test('have the trust of a role only where that role may work, whatever others it comes with', async () => {
    const { url, token } = at;
    const both = await token('several', { roles: ['lead', 'dev'] });
    const trustIn = async (each: string, workspace?: string) => {
      const meta = workspace === undefined ? '' : `"ambit.workspace":"${workspace}"`;
      return (await told(callModern(url, each, 'read', '{}', { meta })))['trustLevel'];
    };
    expect(await trustIn(both)).toBe('sandboxed');
    expect(await trustIn(both, 'b')).toBe('sandboxed');
    expect(await trustIn(both, 'a')).toBe('direct');
    const client = await connectHandshake(url, both);
    expect(await told(client.post(read))).toMatchObject({ trustLevel: 'sandboxed' });
    expect(await trustIn(await token('several', { roles: ['dev'] }), 'a')).toBe('sandboxed');
    expect(await trustIn(await token('several', { roles: ['lead'] }))).toBe('direct');
  });

  test('are not served while the keys of the issuer cannot be had', async () => {
    const { url, token, keys } = at;
    keys('away').state.status = 500;
    expect((await callModern(url, await token('away'), 'read', '{}')).status).toBe(503);
  });

  test('have no stream that outlives the token', async () => {
    const { url, token } = at;
    const client = await connectHandshake(url, await token('plain'));
    const end = soon();
    const short = await token('plain', { exp: end });
    goTo(end - 0.1);
    const headers = { ...bearerHeader(short), accept: 'text/event-stream', 'mcp-session-id': client.transportId };
    const stream = await fetch(url, { headers });
    expect(stream.status).toBe(200);
    // Ends by itself, or this waits until the test times out.
    await stream.text();
    goTo(end);
    expect((await fetch(url, { headers })).status).toBe(401);
  });

  test('the same in the modern era', async () => {
    const { origin, token } = at;
    const end = soon();
    const short = await token('plain', { exp: end });
    goTo(end - 0.1);
    const listen = { method: 'subscriptions/listen', params: '"notifications":{"toolsListChanged":true}' };
    const heard = await (await sendModern(`${origin}/mcp/ambit`, short, listen)).rest();
    expect(heard.join()).toContain('notifications/subscriptions/acknowledged');
  });

  test('show the permissions that hold for the request', async () => {
    const { origin, token } = at;
    const more = await token('steps', { scope: 'use notes.write' });
    const info = await readAnswer(callModern(`${origin}/mcp/ambit`, more, 'session_info', '{"session":"current"}'));
    expect(info.result).toMatchObject({ structuredContent: { session: { permissions: ['notes:write'] } } });
  });
});

test('the control API is for the role that the configuration names', async () => {
  const { origin, token } = at;
  const status = async (claims: Record<string, unknown>) =>
    (await fetch(`${origin}/api/v1/sessions`, { headers: bearerHeader(await token('roles', claims)) })).status;
  expect(await status({ roles: ['ops'], scope: 'use' })).toBe(200);
  expect(await status({ roles: ['ops'] })).toBe(401);
  expect(await status({ roles: ['dev'], scope: 'use' })).toBe(401);
  expect(await status({ roles: ['ops'], scope: 'use', aud: 'other' })).toBe(401);
  expect(await status({ roles: ['ops'], scope: 'use', exp: 1 })).toBe(401);
});

test('what an administrator changes is written down with who it was', async () => {
  const { origin, token, journal } = at;
  const ops = await token('roles', { roles: ['ops'], scope: 'use', sub: 'olga' });
  const add = (name: string) =>
    fetch(`${origin}/api/v1/users?x=1`, {
      method: 'POST',
      headers: { ...bearerHeader(ops), 'content-type': 'application/json' },
      body: JSON.stringify({ name }),
    });
  expect([(await add('ada')).status, (await add('anonymous')).status]).toEqual([200, 400]);
  const said = { by: 'roles|olga', method: 'POST', path: '/api/v1/users' };
  const written = () =>
    journal()
      .split('\n')
      .filter((line) => line.includes('"event":"control"'))
      .map((line) => JSON.parse(line) as object);
  await expect.poll(written, { timeout: 50_000 }).toMatchObject([
    { ...said, status: 200 },
    { ...said, status: 400 },
  ]);
});

test('the events of the control API are read no longer than the token of the reader holds', async () => {
  const { origin, token } = at;
  const end = soon();
  // With the tolerance of five seconds that an issuer has unless the configuration says otherwise.
  const short = await token('roles', { roles: ['ops'], scope: 'use', exp: end - 5 });
  const stream = await fetch(`${origin}/api/v1/events`, { headers: bearerHeader(short) });
  expect(stream.status).toBe(200);
  goTo(end);
  // Ends by itself, or this waits until the test times out.
  await stream.text();
});

test('a token goes no further than the gateway: to no server, into no log and no journal', async () => {
  const { url, token, upstream, lines, journal, gateway } = at;
  const tokens = [
    await token('steps', { scope: 'use' }),
    await token('steps', { scope: 'none' }),
    await token('plain', { exp: 1 }),
  ];
  for (const each of tokens) await (await callModern(url, each, 'read', '{}')).rest();
  const client = await connectHandshake(url, tokens[0] as string);
  await (await client.call('read', '{}')).rest();
  await gateway.close();
  const seen = [JSON.stringify(upstream.asked), lines.join('\n'), journal()].join('\n');
  for (const each of tokens) for (const part of each.split('.').slice(1)) expect(seen).not.toContain(part);
  expect(lines.join('\n')).toContain('access token refused');
  expect(journal()).toContain('steps|alice');
});
