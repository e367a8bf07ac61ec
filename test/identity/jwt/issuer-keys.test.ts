import { expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { described, keyServerForTest, signingKey, tokenOf, verifying } from './key-server.ts';

const unavailable = { code: 'IDENTITY_UNAVAILABLE' };
const refused = { code: 'UNAUTHENTICATED' };
const many = counts(40, 400);

test('a flood of unknown keys asks the issuer once more at most', async () => {
  const server = await keyServerForTest();
  const { verify } = verifying([described(server)]);
  await verify(await tokenOf(server));
  const strange = await signingKey('strange');
  for (let i = 0; i < many; i++) {
    const token = tokenOf(server, { key: strange, header: { kid: `unknown-${i}` } });
    await expect(verify(await token)).rejects.toMatchObject(refused);
  }
  expect(server.state.asked).toBe(1);
});

test('the same flood, all at once, at an issuer that answers with errors', async () => {
  const server = await keyServerForTest();
  server.state.status = 500;
  const { verify, clock } = verifying([described(server)]);
  const tokens = await Promise.all(
    Array.from({ length: many }, (_, i) => tokenOf(server, { header: { kid: `${i}` } })),
  );
  for (const token of tokens) await expect(verify(token)).rejects.toMatchObject(unavailable);
  await Promise.all(tokens.map((token) => expect(verify(token)).rejects.toMatchObject(unavailable)));
  expect(server.state.asked).toBe(1);
  server.state.status = 200;
  clock.ahead += 11_000;
  expect((await verify(await tokenOf(server))).principal?.via).toBe('jwt');
});

test('a new key is found, and one that is gone is no longer taken', async () => {
  const server = await keyServerForTest();
  const { verify, clock } = verifying([described(server)]);
  await verify(await tokenOf(server));
  const second = await signingKey('second');
  server.state.keys = [second.publicJwk];
  clock.ahead += 11_000;
  expect((await verify(await tokenOf(server, { key: second }))).principal?.via).toBe('jwt');
  await expect(verify(await tokenOf(server, { claims: { sub: 'bob' } }))).rejects.toMatchObject(refused);
});

test('known keys serve for an hour while the issuer is away, then no token can be judged', async () => {
  const server = await keyServerForTest();
  const { verify, clock } = verifying([described(server)]);
  await verify(await tokenOf(server));
  server.state.status = 503;
  const far = { exp: Math.floor(Date.now() / 1000) + 100_000 };
  clock.ahead += 3_500_000;
  expect((await verify(await tokenOf(server, { claims: far }))).principal?.via).toBe('jwt');
  clock.ahead += 200_000;
  await expect(verify(await tokenOf(server, { claims: { ...far, sub: 'bob' } }))).rejects.toMatchObject(unavailable);
});

test('a redirect is not followed', async () => {
  const [server, other] = [await keyServerForTest(), await keyServerForTest()];
  server.state.status = 302;
  server.state.headers = { location: other.jwksUri };
  const { verify, reasons } = verifying([described(server)]);
  await expect(verify(await tokenOf(server))).rejects.toMatchObject(unavailable);
  expect(other.state.asked).toBe(0);
  expect(reasons).toEqual(['the keys of its issuer are not available: status 302']);
});

test.each(['{"keys":', '[]', '{"keys":7}', `{"keys":[],"x":"${'x'.repeat(2 * 1024 * 1024)}"}`])(
  'an answer that is no key set is no key set',
  async (body) => {
    const server = await keyServerForTest();
    server.state.body = body;
    const { verify } = verifying([described(server)]);
    await expect(verify(await tokenOf(server))).rejects.toMatchObject(unavailable);
  },
);

test('a token is remembered for a minute, and never beyond its end', async () => {
  const server = await keyServerForTest();
  const { verify, clock } = verifying([described(server, { clockToleranceSeconds: 0 })]);
  const token = await tokenOf(server, { claims: { exp: Math.floor(Date.now() / 1000) + 30 } });
  const first = await verify(token);
  expect(await verify(token)).toBe(first);
  clock.ahead += 31_000;
  await expect(verify(token)).rejects.toMatchObject(refused);
  const longer = await tokenOf(server);
  const second = await verify(longer);
  clock.ahead += 61_000;
  expect(await verify(longer)).not.toBe(second);
});

test('roles and scopes become a ceiling by the configuration alone', async () => {
  const server = await keyServerForTest();
  const roles = {
    claim: 'realm_access.roles',
    map: { dev: { trust: 'sandboxed', workspaces: ['a'] }, lead: { trust: 'direct', workspaces: ['b'] } },
    admin: ['ops'],
    viewer: ['audit'],
  } as const;
  const { verify } = verifying([described(server, { roles, permissions: { 'notes:write': 'write' } })]);
  const of = async (claims: object) => verify(await tokenOf(server, { claims: { ...claims } }));
  const both = await of({ realm_access: { roles: ['dev', 'lead', 7] }, scope: 'read write' });
  expect(both.principal).toMatchObject({
    ceiling: { trustLevel: 'direct', directIn: ['b'], workspaces: ['a', 'b'], scopes: null },
    token: { permissions: { brought: ['notes:write'] } },
  });
  expect((await of({ realm_access: { roles: ['dev'] }, scp: ['x'] })).principal).toMatchObject({
    ceiling: { trustLevel: 'sandboxed', workspaces: ['a'], scopes: null },
    token: { permissions: { brought: [] } },
  });
  expect(await of({ realm_access: { roles: ['ops'] } })).toMatchObject({ principal: undefined, controlRole: 'admin' });
  expect(await of({ realm_access: { roles: ['audit'] } })).toMatchObject({ controlRole: 'viewer' });
  expect(await of({ realm_access: { roles: ['audit', 'ops'] } })).toMatchObject({ controlRole: 'admin' });
  for (const odd of [{ roles: ['lead'] }, { realm_access: { roles: ['constructor', '__proto__'] } }, {}]) {
    expect(await of(odd)).toMatchObject({ principal: undefined, controlRole: undefined });
  }
});
