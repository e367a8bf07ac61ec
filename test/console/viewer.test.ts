import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { hasChromium, openBrowser } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { type Hands, useHands } from './hands.ts';
import { control, type OpenConsole, openConsole, readAdminToken } from './open-console.ts';

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly 'x-ambit-role': string }>>>>;
}

/** Buttons that change only what the page shows: lines and items that open, and those below. */
const items = '.journal-line, .item-list button, .lane-track button';
const harmless =
  /^(Copy|Show all [\d,]+ characters|Load older|Live tail|Clear filters|Only what failed|Test again|Stop$)/;

describe.runIf(hasChromium())('a viewer in the console', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  let ui: OpenConsole;
  let hands: Hands;
  let secrets: Readonly<Record<string, string>>;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
    secrets = await plantSecrets();
    ui = await openConsole(browser, gateway, { role: 'viewer' });
    hands = useHands(ui);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });
  afterEach(() => {
    expect(ui.problems.splice(0)).toEqual([]);
  });

  const ask = <T>(method: string, path: string, body?: unknown) => control<T>(gateway, method, path, body);

  /** Puts a secret into every place that the gateway keeps one in. */
  async function plantSecrets() {
    const planted = (place: string) => `planted-in-${place}-8c1f5e20d7`;
    const script = 'console.error("cannot log in with", process.env.LEAKY_TOKEN, process.argv.at(-1)); process.exit(1)';
    const password = ['-u', `user:${planted('login')}`, `-p${planted('password')}`];
    const args = ['-e', script, '--', ...password, '--api-key', planted('argument')];
    const env = { LEAKY_TOKEN: planted('variable') };
    await ask('POST', '/api/v1/servers', { name: 'leaky', command: process.execPath, args, env });
    const reviewed = await ask<{ definitionHash: string; pinsHash: string }>('POST', '/api/v1/servers/leaky/review');
    const { definitionHash, pinsHash } = reviewed;
    await ask('POST', '/api/v1/servers/leaky/approve', { definitionHash, pinsHash });
    const url = `https://far.example/mcp?token=${planted('query')}`;
    await ask('POST', '/api/v1/servers', { name: 'far', url, headers: { 'x-api-key': planted('header') } });
    const places = ['argument', 'login', 'password', 'variable', 'query', 'header', 'credential', 'metadata', 'task'];
    const value = planted('credential');
    await ask('POST', '/api/v1/credentials', { userId: 'ada', server: 'notes', env: 'NOTES_TOKEN', value });
    const { key } = await ask<{ key: string }>('POST', '/api/v1/keys', { userId: 'ada', trustLevel: 'direct' });
    const { token } = await gateway.session({ userId: 'ada', servers: ['leaky'] });
    await gateway.call({ id: '', token, trustLevel: '' }, 'leaky__anything');
    await gateway.session({
      userId: 'ada',
      task: `Log in with password=${planted('task')} there`,
      metadata: { login: [{ api_token: planted('metadata') }] },
    });
    return {
      ...Object.fromEntries(places.map((at) => [at, planted(at)])),
      key,
      session: token,
      lead: gateway.sessions.lead.token,
      admin: await readAdminToken(gateway),
    };
  }

  const findSecrets = (text: string) => Object.keys(secrets).filter((name) => text.includes(secrets[name] as string));

  /** Asks the control API with the token of this console. */
  async function askAsViewer(method: string, path: string, body?: object): Promise<{ status: number; text: string }> {
    const { token } = await ui.page.evaluate(() => JSON.parse(sessionStorage.getItem('ambit-console') ?? '{}'));
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${gateway.url}${path}`, { method, headers, ...sent });
    return { status: response.status, text: await response.text() };
  }

  /** Opens the event stream with the token of this console. */
  async function openEvents() {
    const { token } = await ui.page.evaluate(() => JSON.parse(sessionStorage.getItem('ambit-console') ?? '{}'));
    const headers = { authorization: `Bearer ${token}`, 'last-event-id': '0' };
    const { body } = await fetch(`${gateway.url}/api/v1/events?activity=true`, { headers });
    return {
      /** Reads until this text has come, and closes the stream. */
      async until(wanted: string): Promise<string> {
        let heard = '';
        for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
          heard += chunk;
          if (heard.includes(wanted)) break;
        }
        return heard;
      },
    };
  }

  /** Every operation of the OpenAPI document, with its path filled in. */
  async function listOperations() {
    const { paths } = JSON.parse((await askAsViewer('GET', '/api/v1/openapi.json')).text) as OpenApi;
    const { keys } = await ask<{ keys: { id: string }[] }>('GET', '/api/v1/keys');
    const ids: Readonly<Record<string, readonly string[]>> = {
      sessions: Object.values(gateway.sessions).map(({ id }) => id),
      servers: ['notes', 'leaky', 'far', 'broken'],
      workspaces: ['garden', 'shop'],
      users: ['ada'],
      keys: keys.map(({ id }) => id),
      consoles: ['current'],
    };
    return Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([name, { 'x-ambit-role': role }]) => {
        const kind = path.split('/')[3] ?? '';
        const filled = path.includes('{id}') ? (ids[kind] ?? []).map((id) => path.replace('{id}', id)) : [path];
        return { method: name.toUpperCase(), path, role, filled };
      }),
    );
  }

  test('U2: tests what the rules mean for a call, and is told where its arguments are wrong', async () => {
    const { main } = hands;
    const { lead } = gateway.sessions;
    await ui.visit('/rules');
    const decision = main.getByRole('region', { name: 'Decision', exact: true });
    await main.getByRole('radio', { name: /lead/ }).check();
    await main.getByLabel(/^Tool/).fill('everything__echo');
    const args = main.getByLabel(/^Arguments, as JSON/);
    await args.fill('{"message": "hello"}');
    await decision.getByText('Allowed', { exact: true }).waitFor();
    await args.fill('{"message": "my password"}');
    await decision.getByText('Denied', { exact: true }).waitFor();
    const said = (await decision.textContent()) ?? '';
    expect(said).toContain('Rule no-secrets decides about tool echo of everything.');
    const fact = decision.getByRole('row', { name: /^args\.message "my password" the call; stated by the agent$/ });
    expect(await fact.count()).toBe(1);
    expect(await decision.getByRole('row', { name: /^no-secrets deny holds/ }).count()).toBe(1);
    expect(await gateway.call(lead, 'everything__echo', { message: 'my password' })).toContain('no-secrets');

    await args.fill('{\n  "message": hello\n}');
    await main.getByText('This is not valid JSON: see line 2, column 14.').waitFor();
    await decision.getByText('To see the decision, correct the arguments.').waitFor();
    await args.fill('{ "message": "hello"');
    await main.getByText('This is not valid JSON: it ends too early, at line 1, column 21.').waitFor();
    await main.getByLabel(/^Tool/).fill('everything__ecko');
    await main.getByText('Check the name: everything does not offer a tool of this name.').waitFor();
  });

  test('U2: finds a line of the journal by words and filters, and opens it', async () => {
    const { main, press } = hands;
    await ui.visit('/journal');
    const lines = main.getByRole('list', { name: 'Journal lines, newest first' }).getByRole('listitem');
    await main.getByRole('searchbox', { name: 'Words' }).fill('no-secrets');
    await main.getByRole('combobox', { name: 'Session' }).fill('lead');
    await main.getByRole('combobox', { name: 'Tool' }).fill('everything__echo');
    await ui.page.waitForURL(/tool=everything__echo/);
    const line = lines.filter({ hasText: 'echo' }).first();
    await line.getByRole('button', { expanded: false }).click();
    const opened = (await line.textContent()) ?? '';
    for (const text of ['no-secrets', 'ada', gateway.sessions.lead.id]) expect(opened).toContain(text);
    await line.getByRole('link', { name: 'Open session lead' }).waitFor();
    await press(main, 'Clear filters');
    await main.getByRole('combobox', { name: 'Session' }).fill('yesterday');
    await lines.filter({ hasText: 'old.md' }).first().waitFor();
    await lines.filter({ hasText: 'everything' }).first().waitFor({ state: 'detached' });
    await main.getByRole('searchbox', { name: 'Words' }).fill('nothing-like-this');
    await main.getByText('No line matches these filters').waitFor();
  });

  test('U2: sees every view, without one button that changes something and without a secret', async () => {
    const { main } = hands;
    const changes: string[] = [];
    ui.page.on('request', (request) => {
      if (request.method() !== 'GET' && !request.url().endsWith('/explain')) changes.push(request.url());
    });
    const places = await ui.page
      .locator('#navigation a')
      .evaluateAll((links) => links.map((link) => (link.getAttribute('href') ?? '').slice(1)));
    const { lead, ended, sandboxed } = gateway.sessions;
    const more = [
      ...[lead, ended, sandboxed].map(({ id }) => `/sessions/${id}`),
      ...['/sessions?state=ended', '/servers/notes', '/servers/leaky', '/servers/shelf'],
      ...['keys', 'credentials', 'logins'].map((tab) => `/people?tab=${tab}`),
      ...['objectives', 'preview&user=ada'].map((tab) => `/policies?tab=${tab}`),
    ];
    const found: (readonly [string, readonly string[], readonly string[]])[] = [];
    for (const address of [...places, ...more]) {
      await ui.visit('/nothing');
      await ui.visit(address);
      const buttons = await main
        .locator(`button:not(${items})`)
        .evaluateAll((all) => all.map((each) => `${each.getAttribute('aria-label') ?? each.textContent}`.trim()));
      found.push([address, buttons.filter((name) => !harmless.test(name)), findSecrets(await ui.page.content())]);
    }
    expect(found.filter(([, buttons, leaked]) => buttons.length + leaked.length > 0)).toEqual([]);
    expect(places).toHaveLength(8);
    expect(changes).toEqual([]);
    await ui.page.getByText('viewer', { exact: true }).click();
    expect(await ui.page.locator('.account-menu').getByRole('button').allTextContents()).toEqual(['Sign out']);
    await ui.page.keyboard.press('Escape');
  });

  test('U2: gets no secret from any address that it may read', async () => {
    const operations = (await listOperations()).filter(({ method }) => method === 'GET');
    const asked = operations.flatMap(({ path, role, filled }) => filled.map((each) => ({ path, role, each })));
    const leaks: string[] = [];
    for (const { path, role, each } of asked) {
      if (path === '/api/v1/events') continue;
      const query = path.endsWith('/effective') ? '?user=ada' : path === '/api/v1/journal' ? '?limit=200' : '';
      const { status, text } = await askAsViewer('GET', `${each}${query}`);
      if (role === 'admin') expect([each, status]).toEqual([each, 403]);
      else if (!each.includes(gateway.sessions.ended.id)) expect([each, status]).toEqual([each, 200]);
      leaks.push(...findSecrets(text).map((name) => `${name}: ${each}`));
    }
    expect(leaks).toEqual([]);
    const events = await openEvents();
    const { id, token } = await gateway.session({ userId: 'ada', servers: ['leaky'] });
    expect(token.length).toBeGreaterThan(32);
    const heard = await events.until(id);
    expect(heard.includes(token) || findSecrets(heard).length > 0).toBe(false);
    expect((await askAsViewer('GET', '/api/v1/servers/leaky/logs')).text).toContain('cannot log in with');
  });

  test('U2: is refused by every address that changes something, but may sign out', async () => {
    const operations = (await listOperations()).filter(({ method }) => method !== 'GET');
    const forViewers = operations
      .filter(({ role }) => role === 'viewer')
      .map(({ method, path }) => `${method} ${path}`);
    expect(forViewers.sort()).toEqual([
      'DELETE /api/v1/consoles/{id}',
      'POST /api/v1/consoles',
      'POST /api/v1/sessions/{id}/explain',
    ]);
    const answers: string[] = [];
    for (const { method, path, role, filled } of operations) {
      if (role === 'viewer') continue;
      const [each = path] = filled;
      const { status } = await askAsViewer(method, each, {});
      if (status !== 403) answers.push(`${method} ${each}: ${status}`);
    }
    expect(answers).toEqual([]);
    expect(operations.length).toBeGreaterThan(30);
    // A sign-in gives no further one, and a console can only sign out itself.
    expect((await askAsViewer('POST', '/api/v1/consoles', {})).status).toBe(403);
    const other = await openConsole(browser, gateway);
    const { consoles } = await ask<{ consoles: { id: string; role: string }[] }>('GET', '/api/v1/consoles');
    const admin = consoles.find(({ role }) => role === 'admin');
    expect((await askAsViewer('DELETE', `/api/v1/consoles/${admin?.id}`)).status).toBe(403);
    await other.close();
    await ui.page.getByText('viewer', { exact: true }).click();
    await ui.page.getByRole('button', { name: 'Sign out' }).click();
    await ui.page.getByText('You have signed out.').waitFor();
    expect(await hands.findInTab('ambc_')).toEqual([]);
  });
});
