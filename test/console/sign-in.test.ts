import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Browser, Page, Request } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { audience, type KeyServer, keyServer, tokenOf } from '../identity/jwt/key-server.ts';
import { type CreatedSession, type RunningAmbit, repository, startAmbit } from '../journeys/start-ambit.ts';
import { hasChromium, openBrowser, openTab } from './browser.ts';
import { control, makeLink, openConsole, readAdminToken } from './open-console.ts';

const expired = 'The link has expired or was used already.';
const ended = 'Your sign-in has ended. Sign in again to continue.';

interface ListedConsole {
  readonly id: string;
}

describe.runIf(hasChromium())('signing in to the console', () => {
  let browser: Browser;
  let gateway: RunningAmbit;
  let provider: KeyServer;
  let session: CreatedSession;

  beforeAll(async () => {
    provider = await keyServer();
    const { issuer, jwksUri } = provider;
    const roles = { admin: ['ops'] };
    const jwt = [{ issuer, audience: [audience], jwksUri, userPrefix: 'idp', roles }];
    const config = { servers: {}, auth: { jwt }, sessions: { allowDirect: 'always' } };
    [browser, gateway] = await Promise.all([openBrowser(), startAmbit(config)]);
    session = await gateway.session({ name: 'harvest', userId: 'ada' });
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
    provider?.close();
  });

  const accessToken = (claims: Record<string, unknown>) => tokenOf(provider, { claims });
  const listConsoles = async () =>
    (await control<{ consoles: ListedConsole[] }>(gateway, 'GET', '/api/v1/consoles')).consoles;
  const frameOf = (page: Page) => page.locator('#navigation');
  const signInOf = (page: Page) => page.getByRole('button', { name: 'Sign in', exact: true });

  /** Pastes a token into the sign-in page. */
  async function paste(page: Page, token: string): Promise<void> {
    if (page.url() === 'about:blank') await page.goto(gateway.url);
    await page.getByLabel('Or paste the admin token').fill(token);
    await signInOf(page).click();
  }

  /** The token of the console that a tab has signed in. It begins with the id. */
  const tokenOfTab = (page: Page): Promise<string> =>
    page.evaluate(() => JSON.parse(sessionStorage.getItem('ambit-console') ?? '{}').token as string);
  const idOf = async (page: Page) => (await tokenOfTab(page)).split('_')[1] as string;
  const isListed = async (id: string) => (await listConsoles()).some((each) => each.id === id);

  /** Everything that a page keeps or shows: its text, its fields, its addresses and its storage. */
  const readAll = (page: Page): Promise<Record<'html' | 'fields' | 'addresses' | 'local' | 'tab' | 'cookie', string>> =>
    page.evaluate(() => ({
      html: document.documentElement.outerHTML,
      fields: [...document.querySelectorAll('input')].map(({ value }) => value).join(),
      // The type of this API is not in the library of the compiler yet.
      addresses: (globalThis as unknown as { navigation: { entries(): { url: string }[] } }).navigation
        .entries()
        .map(({ url }) => url)
        .concat(location.href)
        .join(' '),
      local: JSON.stringify({ ...localStorage }),
      tab: JSON.stringify({ ...sessionStorage }),
      cookie: document.cookie,
    }));

  test('S10: the page and all its files need no credential, hold no data and run nothing but themselves', async () => {
    const secrets = [await readAdminToken(gateway), session.id, 'harvest', gateway.dataDir];
    const assets = await readdir(join(repository, 'dist/console/assets'));
    expect(assets.length).toBeGreaterThan(5);
    for (const path of ['/', '/favicon.svg', ...assets.map((name) => `/assets/${name}`)]) {
      const answer = await fetch(gateway.url + path);
      const policy = answer.headers.get('content-security-policy') ?? '';
      expect([path, answer.status, answer.headers.getSetCookie()]).toEqual([path, 200, []]);
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
      for (const part of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"])
        expect(policy.split('; ')).toContain(part);
      for (const part of ["base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"])
        expect(policy.split('; ')).toContain(part);
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
      });
      const text = await answer.text();
      expect(secrets.filter((secret) => text.includes(secret))).toEqual([]);
    }
  });

  test('S10: a page that another program left in the browser under the same port does not get the sign-in', async () => {
    const listen = async (server: Server) => {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      return (server.address() as AddressInfo).port;
    };
    const kept = { 'content-type': 'text/html', 'cache-control': 'public, max-age=31536000, immutable' };
    const squatter = createServer((_request, response) => response.writeHead(200, kept).end('<p>left behind</p>'));
    let target = await listen(squatter);
    const sockets: Socket[] = [];
    // The port stays the same: first the other program has it, then the gateway.
    const front = createTcpServer((socket) => {
      const behind = connect(target, '127.0.0.1');
      for (const each of [socket, behind]) sockets.push(each.on('error', () => {}));
      socket.pipe(behind).pipe(socket);
    });
    const port = await listen(front);
    const at = (link: string) => link.replace(/:\d+\//, `:${port}/`);
    const { page, close } = await openTab(browser, gateway.url);
    await page.goto(`http://127.0.0.1:${port}/`);
    target = Number(new URL(gateway.url).port);
    for (const socket of sockets.splice(0)) socket.destroy();

    const link = await control<{ url: string; browserUrl: string }>(gateway, 'POST', '/api/v1/consoles/links', {});
    await page.goto('about:blank');
    await page.goto(at(link.url));
    await page.getByText('left behind').waitFor();
    await page.goto(at(link.browserUrl));
    await frameOf(page).waitFor();
    expect(new URL(page.url()).hostname).toMatch(/^[0-9a-f]{32}\.localhost$/);
    expect(await page.locator('.header-host').textContent()).toBe(`localhost:${port}`);
    expect((await page.goto(`http://${'0'.repeat(32)}.localhost:${port}/`))?.status()).toBe(403);
    await close();
    for (const socket of sockets) socket.destroy();
    await Promise.all([squatter, front].map((server) => new Promise((resolve) => server.close(resolve))));
  });

  test('S10: a browser runs no other file than the page names, whatever it has under that address', async () => {
    const text = await (await fetch(gateway.url)).text();
    const tags = [...text.matchAll(/<[^>]*(?:src|href)="\.\/(assets\/[^"]+)"[^>]*>/g)];
    expect(tags.length).toBeGreaterThanOrEqual(2);
    for (const [tag] of tags) expect(tag).toMatch(/ integrity="sha384-[A-Za-z0-9+/]{64}"/);
    const { page, problems, close } = await openTab(browser, gateway.url);
    await page.route('**/assets/index-*.js', async (route) => {
      const headers = { 'content-type': 'text/javascript' };
      await route.fulfill({ headers, body: 'document.title = "EVIL";' });
    });
    await page.goto(gateway.url);
    await expect.poll(() => problems.join()).toContain('integrity');
    expect(await page.title()).toBe('Ambit');
    await close();
  });

  test('the link of "ambit open" signs in once, and its code stays nowhere', async () => {
    const printed = await gateway.cli('open', '--print', '--role', 'viewer');
    const link = /^http\S+$/m.exec(printed)?.[0] ?? '';
    const [origin, code = ''] = link.split('/#code=');
    expect([origin, code.startsWith('ambo_')]).toEqual([gateway.url, true]);
    const { page, problems, close } = await openTab(browser, gateway.url);
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(link);
    await frameOf(page).waitFor();
    await page.locator('.account summary', { hasText: 'viewer' }).waitFor();
    const kept = await readAll(page);
    expect(Object.values(kept).filter((text) => text.includes(code))).toEqual([]);
    expect(kept.addresses).toBe(`${gateway.url}/#/overview ${gateway.url}/#/overview`);
    expect(asked.filter((url) => url.replace(link, '').includes('ambo_'))).toEqual([]);
    expect(problems).toEqual([]);
    await close();

    const again = await openTab(browser, gateway.url);
    await again.page.goto(link);
    await again.page.getByText(expired).waitFor();
    await again.page.getByText('Run "ambit open" to get a new one.').waitFor();
    expect(Object.values(await readAll(again.page)).filter((text) => text.includes('ambo_'))).toEqual([]);
    await again.close();
  });

  test('a link loses its code in a signed-in tab too, and replaces the sign-in of the tab', async () => {
    const { page, close } = await openConsole(browser, gateway, { role: 'viewer' });
    const before = await idOf(page);
    expect(await isListed(before)).toBe(true);
    const link = await makeLink(gateway);
    const code = link.split('#code=')[1] as string;
    // The same page, as when somebody pastes the link into the address of the tab.
    await page.evaluate((to) => {
      location.href = to;
    }, link);
    await page.locator('.account summary', { hasText: 'admin' }).waitFor();
    await expect.poll(() => isListed(before)).toBe(false);
    expect(Object.values(await readAll(page)).filter((text) => text.includes(code))).toEqual([]);
    for (const wrong of [code, 'x'.repeat(3000), '%F0%9F%8C%B1 "<b>']) {
      await page.evaluate(async (to) => {
        const heard = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }));
        location.hash = `#code=${to}`;
        await heard;
      }, wrong);
      await page.getByText(expired).waitFor();
      const kept = await readAll(page);
      expect(Object.values(kept).filter((text) => text.includes(wrong) || text.includes('code='))).toEqual([]);
      expect(kept.tab).toBe('{}');
      await signInOf(page).waitFor();
    }
    await page.reload();
    await signInOf(page).waitFor();
    await close();
  });

  test('the admin token opens the console; the tab keeps only the token of this console', async () => {
    const admin = await readAdminToken(gateway);
    const { page, problems, close } = await openTab(browser, gateway.url);
    await paste(page, ` ${admin}\n`);
    await frameOf(page).waitFor();
    const kept = await readAll(page);
    expect(Object.values(kept).filter((text) => text.includes(admin))).toEqual([]);
    const token = await tokenOfTab(page);
    expect(token).toMatch(/^ambc_/);
    expect(Object.entries(kept).filter(([, text]) => text.includes(token))).toEqual([['tab', kept.tab]]);
    expect([kept.cookie, await page.context().cookies()]).toEqual(['', []]);
    await page.reload();
    await frameOf(page).waitFor();
    // Another tab of the same profile.
    const other = await page.context().newPage();
    await other.goto(`${gateway.url}/#/sessions`);
    await signInOf(other).waitFor();
    expect((await readAll(other)).tab).toBe('{}');
    expect(problems).toEqual([]);
    await close();
  });

  test('a wrong token opens nothing, and is shown nowhere', async () => {
    const { page, close } = await openTab(browser, gateway.url);
    const wrong = ['amba_admin_wrongwrongwrong', 'ünïcode-tøken-🌱', 'two words', `ambc_${'0'.repeat(5000)}`];
    for (const token of [...wrong, session.token, await accessToken({ roles: ['other'] })]) {
      await paste(page, token);
      await page.getByText('This token does not sign you in.').waitFor();
      expect(Object.values(await readAll(page)).filter((text) => text.includes(token))).toEqual([]);
    }
    await close();
  });

  test('an access token with a role opens the console with that role', async () => {
    const { page, close } = await openTab(browser, gateway.url);
    const token = await accessToken({ roles: ['ops'], sub: 'olga' });
    await paste(page, token);
    await page.locator('.account summary', { hasText: 'admin' }).click();
    await page.getByText('Signed in as idp|olga, role admin.').waitFor();
    expect(Object.values(await readAll(page)).filter((text) => text.includes(token))).toEqual([]);
    await close();
  });

  test('a console that is revoked in another one shows the sign-in page at once, without any data', async () => {
    const [admin, victim] = await Promise.all([
      openConsole(browser, gateway),
      openConsole(browser, gateway, { role: 'viewer' }),
    ]);
    const isStream = (request: Request) => request.url().includes('/api/v1/events');
    let asked = 0;
    victim.page.on('request', (request) => (asked += isStream(request) ? 1 : 0));
    const streamEnd = new Promise<void>((resolve) => {
      for (const event of ['requestfinished', 'requestfailed'] as const)
        victim.page.on(event as 'requestfinished', (request) => isStream(request) && resolve());
    });
    await victim.visit(`/sessions/${session.id}`);
    await victim.page.getByText('Live', { exact: true }).waitFor();
    await victim.page.getByRole('button', { name: 'Pause', exact: true }).click();
    const revoke = `Revoke console ${(await idOf(victim.page)).slice(0, 8)}`;
    const { page } = admin;
    await page.locator('.account summary').click();
    await page.getByRole('button', { name: 'Signed-in consoles' }).click();
    const list = page.getByRole('dialog', { name: 'Signed-in consoles' });
    await list.getByText('this one').waitFor();
    await list.getByRole('button', { name: revoke }).click();
    await victim.page.getByText(ended).waitFor();
    await streamEnd;
    // The page asked whether its sign-in has ended, and did not only wait for its next request.
    expect(asked).toBe(0);
    const left = await readAll(victim.page);
    expect([left.tab, await victim.page.title()]).toEqual(['{}', 'Sign in · Ambit']);
    expect(left.html).not.toMatch(/harvest|ada|navigation|dialog/);
    await list.getByRole('button', { name: revoke }).waitFor({ state: 'detached' });
    // With the dialog still open, it revokes itself.
    await list.getByRole('row', { name: 'this one' }).getByRole('button').click();
    await page.getByText(ended).waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await Promise.all([admin.close(), victim.close()]);
  });

  test('a request that is refused ends the sign-in too', async () => {
    const { page, close } = await openConsole(browser, gateway);
    // Without an event stream, only the next request can tell.
    await page.route('**/api/v1/events*', (route) => route.abort());
    await page.reload();
    await frameOf(page).waitFor();
    await control(gateway, 'DELETE', `/api/v1/consoles/${await idOf(page)}`);
    // The view may have asked for its data again already, and then there is no link left to click.
    await page.evaluate(() => {
      location.hash = '#/servers';
    });
    await page.getByText(ended).waitFor();
    await close();
  });

  test('signing out does not wait for the gateway, and ends the sign-in there', async () => {
    const { page, close } = await openConsole(browser, gateway);
    const own = await idOf(page);
    await page.locator('.account summary').click();
    process.kill(gateway.pid, 'SIGSTOP');
    try {
      await page.getByRole('button', { name: 'Sign out' }).click();
      await page.getByText('You have signed out.').waitFor();
      expect((await readAll(page)).tab).toBe('{}');
    } finally {
      process.kill(gateway.pid, 'SIGCONT');
    }
    await expect.poll(() => isListed(own)).toBe(false);
    await close();
  });
});
