import { expect, test } from 'vitest';
import { createRawClient } from '../../gateway/raw-client.ts';
import { browse } from './authorization-server.ts';
import { isBack, later, loginScenes, port } from './login-scene.ts';

const on = loginScenes();
const base = 'http://127.0.0.1:7420/ambit';

/** Behind a proxy that is reached at another address than the gateway listens on. */
async function scene() {
  const made = await on.scene({}, { listen: { publicUrl: base } });
  const { url } = await made.gateway.listen({ port: 0 });
  const ada = await on.clientOf(made.gateway, 'ada', 'notes');
  const inside = (address: string) => address.replace(base, url);
  const link = inside(/http:\S+\/login\/\S+/.exec(await ada.call('read'))?.[0] ?? '');
  const agree = (headers: Record<string, string> = ownPage) =>
    fetch(link, { method: 'POST', redirect: 'manual', headers });
  /** Where the browser is sent back to, and the cookie that only the browser that began has. */
  async function goThere(): Promise<{ readonly back: string; readonly cookie: string }> {
    const begun = await agree();
    const back = await browse(begun.headers.get('location') as string, (address) => address.startsWith(base));
    return { back: inside(back), cookie: begun.headers.getSetCookie()[0]?.split(';', 1)[0] as string };
  }
  return { ...made, ada, link, inside, agree, goThere };
}

/** What a browser says of a form on a page of the gateway itself. */
const ownPage = { origin: new URL(base).origin, 'sec-fetch-site': 'same-origin' };
/** What it says of pages of others, and what no browser of today says. */
const otherPages = [
  {},
  { origin: ownPage.origin },
  { 'sec-fetch-site': 'same-origin' },
  { ...ownPage, origin: 'http://localhost' },
  { ...ownPage, origin: 'http://127.0.0.1:7421' },
  { ...ownPage, origin: 'null' },
  { ...ownPage, 'sec-fetch-site': 'same-site' },
  { ...ownPage, 'sec-fetch-site': 'cross-site' },
  { ...ownPage, 'sec-fetch-site': 'none' },
] as Record<string, string>[];

test('P14: a session whose user has not logged in gets the link to do it', async () => {
  const { ada, link, inside, agree } = await scene();
  const page = await fetch(link);
  expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
  expect(page.headers.get('cache-control')).toBe('no-store');
  expect(await page.text()).toContain('Continue as “ada”');
  const begun = await agree();
  const [cookie = ''] = begun.headers.getSetCookie();
  expect(cookie).toMatch(/; HttpOnly; SameSite=Lax; Max-Age=600; Path=\/ambit\/oauth\/callback$/);
  const back = await browse(begun.headers.get('location') as string, (url) => url.startsWith(base));
  const headers = { cookie: cookie.split(';', 1)[0] as string };
  expect(await (await fetch(inside(back), { headers })).text()).toContain('Finish as “ada”');
  const done = await fetch(inside(back), { method: 'POST', headers: { ...headers, ...ownPage } });
  expect(await done.text()).toContain('“ada” is logged in to “notes”');
  expect(await ada.call('read')).toBe('done: read');
});

test('only the browser of the user can confirm and complete a login', async () => {
  const { gateway, link, inside, agree } = await scene();
  for (const headers of otherPages) expect((await agree(headers)).status).toBe(403);
  // A victim's browser is sent back to what the attacker began in another one.
  for (const cookie of ['', `ambit-login=${'a'.repeat(43)}`]) {
    const begun = await agree();
    const back = await browse(begun.headers.get('location') as string, (url) => url.startsWith(base));
    const refused = await fetch(inside(back), { headers: { cookie } });
    expect(refused.status).toBe(502);
    // What was begun in a browser is not ended by a command either.
    await expect(gateway.logins.complete(back, { userId: 'ada', server: 'notes' })).rejects.toMatchObject({
      code: 'LOGIN_FAILED',
    });
  }
  expect(gateway.logins.list()).toEqual([]);
  const forged = `${link.slice(0, -2)}${link.endsWith('AA') ? 'BB' : 'AA'}`;
  expect((await fetch(forged)).status).toBe(410);
  later(601);
  expect((await fetch(link)).status).toBe(410);
  expect((await agree()).status).toBe(410);
});

test('S6: a cookie that was planted ends no login: the person is asked, and says yes on our page only', async () => {
  const { gateway, as, inside, goThere } = await scene();
  // The attacker began it as “ada”, planted the cookie, and leads a victim there, who is logged in already.
  const { back, cookie } = await goThere();
  for (const _again of [1, 2]) {
    const asked = await fetch(back, { headers: { cookie } });
    expect(asked.status).toBe(200);
    expect(asked.headers.get('content-security-policy')).toBe(
      "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
    );
    expect(asked.headers.get('x-frame-options')).toBe('DENY');
    const page = await asked.text();
    for (const words of ['“notes”', 'Finish as “ada”', as.issuer]) expect(page).toContain(words);
    expect(page).not.toContain('<script');
  }
  for (const headers of otherPages) {
    expect((await fetch(back, { method: 'POST', headers: { cookie, ...headers } })).status).toBe(403);
  }
  expect(gateway.logins.list()).toEqual([]);
  expect(as.asked.get('/token')).toBeUndefined();
  // Two cookies of one name: the other was set by somebody else.
  const two = `${cookie}; ambit-login=${'b'.repeat(43)}`;
  expect((await fetch(back, { method: 'POST', headers: { ...ownPage, cookie: two } })).status).toBe(502);
  const once = await goThere();
  const yes = { method: 'POST', headers: { ...ownPage, cookie: once.cookie } };
  expect(await (await fetch(once.back, yes)).text()).toContain('“ada” is logged in to “notes”');
  expect((await fetch(once.back, yes)).status).toBe(502);
  // What an operator starts has no cookie: whoever opens its address is asked as well.
  const { authorizationUrl } = await gateway.logins.start({ userId: 'eve', server: 'notes' });
  const open = inside(await browse(authorizationUrl, (url) => url.startsWith(base)));
  expect(await (await fetch(open)).text()).toContain('Finish as “eve”');
  expect(gateway.logins.list().map(({ userId }) => userId)).toEqual(['ada']);
  expect(await (await fetch(open, { method: 'POST', headers: ownPage })).text()).toContain('“eve” is logged in');
  // Who was refused there is told so at once, and the way back is used up.
  const refused = await goThere();
  const said = refused.back.replace(/code=[^&]+/, 'error=access_denied');
  const answer = await fetch(said, { headers: { cookie: refused.cookie } });
  expect([answer.status, (await answer.text()).includes('access_denied')]).toEqual([502, true]);
  expect((await fetch(refused.back, { headers: { cookie: refused.cookie } })).status).toBe(502);
});

test('a page escapes text of others', async () => {
  const { as, far, agree } = await scene();
  far.metadata = { ...far.metadata, authorization_servers: [`${as.issuer}/<img/src=x>`] };
  const page = await (await agree()).text();
  expect(page).toContain('&#60;img');
  expect(page).not.toContain('<img');
});

test('a client that shows links is asked by itself, once; the server hears nothing of it', async () => {
  const { gateway, far } = await scene();
  const session = await gateway.createSession({ userId: 'eve' });
  const capabilities = { elicitation: { url: {} } };
  const modern = on.closing(await createRawClient(gateway.connect(session.id, 'notes'), 'modern', { capabilities }));
  const call = { name: 'read', arguments: {} };
  const { result } = await modern.request('tools/call', call);
  expect(result).toMatchObject({
    resultType: 'input_required',
    inputRequests: {
      'ambit/login': {
        method: 'elicitation/create',
        params: { mode: 'url', url: expect.stringContaining(`${base}/login/`) },
      },
    },
  });
  const inputResponses = { 'ambit/login': { action: 'accept' } };
  expect((await modern.request('tools/call', { ...call, inputResponses })).result).toMatchObject({ isError: true });
  const { authorizationUrl } = await gateway.logins.start({ userId: 'eve', server: 'notes' }, port);
  await gateway.logins.complete(await browse(authorizationUrl, isBack), { userId: 'eve', server: 'notes' });
  const done = await modern.request('tools/call', { ...call, inputResponses });
  expect(done.result).toMatchObject({ content: [{ text: 'done: read' }] });
  expect(far.bodies.join()).toContain('"name":"read"');
  expect(far.bodies.join()).not.toContain('inputResponses');
});

test('a handshake-era client gets the error for a required login', async () => {
  const { gateway } = await scene();
  const session = await gateway.createSession({ userId: 'eve' });
  for (const [capabilities, code] of [
    [{ elicitation: { url: {} } }, -32042],
    [{ elicitation: {} }, undefined],
  ] as const) {
    // At the address of all servers a client is let in before any of them is asked.
    const client = on.closing(await createRawClient(gateway.connect(session.id), 'handshake', { capabilities }));
    const { error, result } = await client.request('tools/call', { name: 'notes__read', arguments: {} });
    expect(error?.code).toBe(code);
    if (code === undefined) expect(result).toMatchObject({ isError: true });
    else expect(error).toMatchObject({ data: { elicitations: [{ mode: 'url', url: expect.stringContaining(base) }] } });
  }
});

test('an authorization server without registration reads the client metadata of Ambit', async () => {
  const { as, far } = await on.scene();
  const gateway = await on.start(
    { notes: { url: far.url, era: 'modern' } },
    { listen: { publicUrl: 'https://ambit.example.com' } },
  );
  const { url } = await gateway.listen({ port: 0 });
  const known = (await (await fetch(`${as.issuer}/.well-known/openid-configuration`)).json()) as object;
  as.instead = (path) =>
    path === '/.well-known/oauth-authorization-server'
      ? { status: 200, body: { ...known, client_id_metadata_document_supported: true } }
      : undefined;
  const started = await gateway.logins.start({ userId: 'ada', server: 'notes' });
  const asked = new URL(started.authorizationUrl).searchParams;
  const id = asked.get('client_id') as string;
  expect(id).toMatch(/^https:\/\/ambit\.example\.com\/oauth\/client\/[0-9a-f]{16}\.json$/);
  const document = await (await fetch(id.replace('https://ambit.example.com', url))).json();
  expect(document).toMatchObject({ client_id: id, redirect_uris: [asked.get('redirect_uri')] });
  expect(as.asked.get('/reg')).toBeUndefined();
});

test('without a public address there are no such pages', async () => {
  const { gateway } = await on.scene();
  const { url } = await gateway.listen({ port: 0 });
  for (const path of ['/login/x', '/oauth/callback?state=x', '/oauth/client/0123456789abcdef.json']) {
    expect((await fetch(`${url}${path}`)).status).toBe(404);
  }
});
