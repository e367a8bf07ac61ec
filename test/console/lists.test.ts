import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { repository } from '../journeys/start-ambit.ts';
import { hasChromium, openBrowser } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { type Hands, useHands } from './hands.ts';
import { control, type OpenConsole, openConsole, waitForView } from './open-console.ts';

interface ListedSession {
  readonly id: string;
  readonly name: string | null;
  readonly userId: string;
  readonly agentId: string | null;
  readonly workspaceId: string | null;
  readonly trustLevel: string;
  readonly parentId: string | null;
  readonly children: number;
  readonly usage: { readonly calls: number; readonly bytes: number };
  readonly activity: { readonly errors: number; readonly underWay: number } | null;
  readonly limits: Readonly<
    Record<'callsPerMinute' | 'concurrentCalls' | 'totalCalls' | 'totalBytes', number | null>
  > | null;
}

describe.runIf(hasChromium())('the lists of the console', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  let ui: OpenConsole;
  let page: Page;
  let hands: Hands;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
    ui = await openConsole(browser, gateway);
    page = ui.page;
    hands = useHands(ui);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });
  afterEach(() => {
    expect(ui.problems.splice(0)).toEqual([]);
  });

  const listSessions = async () =>
    (await control<{ sessions: ListedSession[] }>(gateway, 'GET', '/api/v1/sessions?include=usage,activity')).sessions;
  const readAddress = () => new URL(page.url()).hash;
  const readFields = () =>
    page
      .locator('search')
      .locator('input, select')
      .evaluateAll((fields) => fields.map((field) => (field as HTMLInputElement).value).filter(Boolean));

  /** Fills in the filters with these labels, and waits until the address has each. */
  async function setFilters(filters: readonly (readonly [label: string, name: string, value: string])[]) {
    for (const [label, name, value] of filters) {
      const labelled = page.locator('label.filter', { has: page.getByText(label, { exact: true }) });
      const field = labelled.locator('input, select');
      if ((await field.evaluate((element) => element.tagName)) === 'SELECT') await field.selectOption(value);
      else await field.fill(value);
      await page.waitForURL((url) => new URLSearchParams(url.hash.split('?')[1]).get(name) === value);
    }
  }

  /** Reloads, and goes to another view and back: address, fields and rows stay what they are. */
  async function comeBack(readRows: () => Promise<unknown>, path: string): Promise<void> {
    const read = async () => ({ address: readAddress(), fields: await readFields(), rows: await readRows() });
    const before = await read();
    await page.reload();
    await waitForView(page, path);
    await expect.poll(read).toEqual(before);
    await page.locator('#navigation').getByRole('link', { name: 'Rules', exact: true }).click();
    await waitForView(page, '/rules');
    await page.goBack();
    await waitForView(page, path);
    await expect.poll(read).toEqual(before);
  }

  const sessionRows = () => hands.main.locator('.session-name a').allTextContents();

  test('the filters of the sessions choose them, and stay in the address', async () => {
    const chosen: readonly (readonly [query: string, ...names: string[]])[] = [
      ['', 'clerk', 'lead', 'beds'],
      ['text=planner', 'lead'],
      ['text=spring', 'lead'],
      ['user=grace', 'clerk'],
      ['workspace=garden', 'lead', 'beds'],
      ['trust=sandboxed', 'clerk'],
      ['show=errors', 'lead'],
      ['show=active', 'lead'],
      ['show=roots', 'clerk', 'lead'],
      ['sort=name', 'beds', 'clerk', 'lead'],
      ['show=busy'],
      ['show=limits'],
      ['user=ada&sort=errors', 'lead', 'beds'],
      ['workspace=garden&sort=calls', 'lead', 'beds'],
    ];
    await ui.visit('/sessions');
    for (const [query, ...names] of chosen) {
      await ui.visit(`/sessions?${query}`);
      await expect.poll(sessionRows, { message: query }).toEqual(names);
    }
    await ui.visit('/sessions');
    await setFilters([
      ['Search', 'text', 'e'],
      ['User', 'user', 'ada'],
      ['Workspace', 'workspace', 'garden'],
      ['Trust level', 'trust', 'direct'],
      ['Show', 'show', 'errors'],
      ['Order', 'sort', 'name'],
    ]);
    await expect.poll(sessionRows).toEqual(['lead']);
    expect(readAddress()).toBe('#/sessions?text=e&user=ada&workspace=garden&trust=direct&show=errors&sort=name');
    await comeBack(sessionRows, '/sessions');
  });

  test('each cell of a session says what the API says', async () => {
    await gateway.session({ userId: 'joan', quotas: { totalBytes: 2 * 1_048_576 } });
    await ui.visit('/sessions');
    await page.reload();
    await hands.row('lead').waitFor();
    const shown = await hands.main.locator('tbody tr').evaluateAll((rows) =>
      rows.map((row) => {
        const read = (part: string) => row.querySelector(part)?.textContent ?? '';
        const [, user, trust, , , , calls, errors] = [...row.querySelectorAll('td')];
        const pair = [...(user?.querySelectorAll('bdi') ?? [])].map((each) => each.textContent).join(', ');
        const numbers = [trust, calls, errors].map((cell) => cell?.textContent);
        return {
          session: [read('.session-name a'), read('td:first-child .session-second')],
          cells: [pair, ...numbers],
          limits: row.querySelector('.session-limit')?.getAttribute('title')?.split('\n'),
          bar: row.querySelector('.session-limit [role=img]')?.getAttribute('aria-label'),
        };
      }),
    );
    const byName = new Map((await listSessions()).map((session) => [session.name, session]));
    const expected = ['clerk', 'lead', 'beds', null].map((name) => {
      const { id, agentId, userId, workspaceId, trustLevel, parentId, children, usage, activity, limits } = byName.get(
        name,
      ) as ListedSession;
      const { callsPerMinute, concurrentCalls, totalCalls, totalBytes } = limits ?? {};
      const own = [
        ...(totalCalls == null ? [] : [`Calls in all: ${usage.calls} of ${totalCalls}`]),
        ...(totalBytes == null ? [] : [`Bytes in all: ${usage.bytes} B of ${totalBytes / 1_048_576} MiB`]),
      ];
      return {
        session: [
          name ?? id.slice(0, 8),
          // Only phones show the trust level here.
          [trustLevel === 'direct' && 'direct', parentId !== null && 'child', children === 1 && '1 child', agentId]
            .filter(Boolean)
            .join(' · '),
        ],
        cells: [
          `${userId}, ${workspaceId ?? 'no workspace'}`,
          trustLevel,
          `${usage.calls}`,
          `${activity?.errors ?? 0}`,
        ],
        limits: [
          ...own.map((text) => expect.stringContaining(text)),
          // The minute goes on while the test reads it.
          expect.stringMatching(`^Calls in the last minute: \\d of ${callsPerMinute?.toLocaleString('en')} a minute$`),
          `Calls under way: ${activity?.underWay ?? 0} of ${concurrentCalls} at once`,
        ],
        // Of limits that are used equally, the first one.
        bar: own[0] ?? 'Calls in the last minute: 0 of 6,000',
      };
    });
    const [unnamed, ...named] = shown;
    expect([...named, unnamed]).toEqual(expected);
    expect(expected.map(({ cells, bar }) => [...cells.slice(1), bar])).toEqual([
      ['sandboxed', '0', '0', 'Calls in the last minute: 0 of 6,000'],
      ['direct', '7', '3', 'Calls in all: 7 of 50'],
      ['direct', '0', '0', 'Calls in all: 0 of 50'],
      ['direct', '0', '0', 'Bytes in all: 0 B of 2 MiB'],
    ]);
  });

  test('Pause keeps the rows, and Resume shows what has happened', async () => {
    const header = page.locator('.header');
    await hands.press(header, 'Pause');
    await header.getByText('Paused', { exact: true }).waitFor();
    const before = await sessionRows();
    const asked: string[] = [];
    const note = (request: { url(): string }) => asked.push(request.url().slice(gateway.url.length));
    page.on('request', note);
    const late = await gateway.session({ name: 'late', userId: 'ada', workspaceId: 'garden' });
    await gateway.call(late, 'session_info');
    await control(gateway, 'DELETE', `/api/v1/sessions/${gateway.sessions.child.id}`);
    // Another console, which is not paused, shows both.
    const other = await openConsole(browser, gateway);
    await other.visit('/sessions');
    const rows = useHands(other);
    await rows.row('late').waitFor();
    await rows.row('beds').waitFor({ state: 'detached' });
    await gateway.call(late, 'session_info');
    const callsOf = (of: Hands) => of.row('late').getByRole('cell').nth(6);
    await callsOf(rows).getByText('2', { exact: true }).waitFor();
    expect(await sessionRows()).toEqual(before);
    await hands.press(header, 'Resume');
    await header.getByText('Live', { exact: true }).waitFor();
    await callsOf(hands).getByText('2', { exact: true }).waitFor();
    expect(await sessionRows()).toEqual(await rows.main.locator('.session-name a').allTextContents());
    // It collected the events, and read only the session that is new.
    const lists = asked.filter((path) => path.startsWith('/api/v1/sessions?'));
    expect(lists).toEqual([expect.stringContaining(`?ids=${late.id}&`)]);
    page.off('request', note);
    await other.close();
  });

  test('ended sessions are read page by page', async () => {
    await control(gateway, 'DELETE', `/api/v1/sessions/${gateway.sessions.sandboxed.id}`);
    const lookup = '**/api/v1/sessions/ended?*';
    // With short pages the list needs no hundred.
    await page.route(lookup, (route) => route.continue({ url: route.request().url().replace('limit=100', 'limit=2') }));
    await ui.visit('/sessions?state=ended');
    await expect.poll(sessionRows).toEqual(['clerk', 'beds']);
    await hands.press(hands.main, 'Load older sessions');
    await expect.poll(sessionRows).toEqual(['clerk', 'beds', 'yesterday']);
    expect(await hands.main.getByRole('button', { name: 'Load older sessions' }).count()).toBe(0);
    await page.unroute(lookup);
    await ui.visit('/sessions?state=ended&user=grace&days=1');
    await expect.poll(sessionRows).toEqual(['clerk']);
    await comeBack(sessionRows, '/sessions');
  });

  const lineTexts = () => hands.main.locator('.journal-line .journal-text').allTextContents();
  const countLines = () => hands.main.locator('.journal-line').count();

  test('the filters of the journal stay in the address, and lines are added at both ends', async () => {
    const { lead } = gateway.sessions;
    await ui.visit('/journal');
    await setFilters([
      ['Words', 'words', 'echo'],
      ['Kind', 'kind', 'call'],
      ['Session', 'session', 'lead'],
      ['User', 'user', 'ada'],
      ['Server', 'server', 'everything'],
      ['Tool', 'tool', 'everything__echo'],
      ['Outcome', 'outcome', 'ok'],
      ['Time', 'range', '24h'],
    ]);
    await expect.poll(countLines).toBe(1);
    expect(readAddress()).toBe(
      '#/journal?words=echo&kind=call&session=lead&user=ada&server=everything&tool=everything__echo&outcome=ok&range=24h',
    );
    await comeBack(lineTexts, '/journal');

    await hands.press(hands.main, 'Clear filters');
    await ui.visit(`/journal?session=${lead.id}&kind=call`);
    await expect.poll(countLines).toBe(7);
    const all = await lineTexts();
    await hands.press(hands.main, 'Only what failed');
    await page.waitForURL(/&outcome=error$/);
    await expect.poll(countLines).toBe(3);
    expect(await hands.main.locator('.journal-item:not(.journal-failed)').count()).toBe(0);
    await hands.press(hands.main, 'Only what failed');
    await expect.poll(lineTexts).toEqual(all);

    await hands.press(hands.main, 'Live tail');
    await page.waitForURL(/&tail=on$/);
    await gateway.call(lead, 'session_state_get', { key: 'step' });
    await expect.poll(countLines).toBe(8);
    expect((await lineTexts()).slice(1)).toEqual(all);
    await hands.press(page.locator('.header'), 'Pause');
    await hands.main.getByRole('button', { name: 'Live tail: paused' }).waitFor();
    await hands.press(page.locator('.header'), 'Resume');
    await hands.press(hands.main, 'Live tail: on');

    const talker = await gateway.session({ name: 'talker' });
    await Promise.all(Array.from({ length: 60 }, () => gateway.call(talker, 'session_info')));
    const lookup = '**/api/v1/journal?*';
    await page.route(lookup, (route) =>
      route.continue({ url: route.request().url().replace('limit=100', 'limit=50') }),
    );
    await ui.visit(`/journal?session=${talker.id}&kind=call`);
    await expect.poll(countLines).toBe(50);
    await hands.press(hands.main, 'Load older');
    await hands.main.getByText('There are no older lines that match.').waitFor();
    expect(await countLines()).toBe(60);
    await page.unroute(lookup);
  });

  test('the theme is that of the system until one is chosen, and stays', async () => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    const choose = async (theme: string) => {
      await page.locator('.account summary').click();
      await page.getByLabel('Theme').selectOption({ label: theme });
      await page.keyboard.press('Escape');
    };
    await choose('Dark');
    const dark = await background();
    expect(dark).not.toBe(light);
    await page.reload();
    await page.locator('#navigation').waitFor();
    expect(await background()).toBe(dark);
    await choose('As the system');
    expect(await background()).toBe(light);
    await page.emulateMedia({ colorScheme: 'dark' });
    expect(await background()).toBe(dark);
    await choose('Light');
    expect(await background()).toBe(light);
  });

  test('events that come before the list of sessions do not look like the whole list', async () => {
    const { page, visit, close } = await openConsole(browser, gateway);
    await page.addInitScript(() => {
      const { read } = ReadableStreamDefaultReader.prototype;
      ReadableStreamDefaultReader.prototype.read = async function readAndNote() {
        const result = await read.call(this);
        if (String(result.value).includes('event: activity')) Object.assign(globalThis, { heardAt: performance.now() });
        return result as never;
      };
    });
    const list = '**/api/v1/sessions?include=*';
    let release: () => void = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(list, (route) => released.then(() => route.continue()));
    await page.reload();
    await visit('/overview');
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    await gateway.call(gateway.sessions.lead, 'session_info');
    // Events are shown half a second later.
    await page.waitForFunction(() => performance.now() > (globalThis as unknown as { heardAt: number }).heardAt + 1000);
    const live = page.locator('.figure', { hasText: 'Live sessions' }).locator('.figure-value');
    expect(await live.textContent()).toBe('…');
    release();
    await live.getByText(String((await listSessions()).length), { exact: true }).waitFor();
    await close();
  });

  test('a console opens one event stream, and the code of the charts only for the overview', async () => {
    const assets = join(repository, 'dist/console/assets');
    const texts = await Promise.all(
      (await readdir(assets)).map(async (name) => [name, await readFile(join(assets, name), 'utf8')]),
    );
    const charts = texts
      .filter(([name, text]) => name?.endsWith('.js') && text?.includes('u-over'))
      .map(([name]) => name);
    expect(charts).toHaveLength(1);
    const asked: string[] = [];
    const note = (request: { url(): string }) => asked.push(new URL(request.url()).pathname);
    const count = (path: string) => asked.filter((each) => each === path).length;
    await ui.visit('/sessions');
    page.on('request', note);
    await page.reload();
    await hands.row('lead').waitFor();
    await page.getByRole('status').getByText('Live', { exact: true }).waitFor();
    for (const address of ['/servers', '/workspaces', '/people', '/journal', `/sessions/${gateway.sessions.lead.id}`])
      await ui.visit(address);
    expect([count(`/assets/${charts[0]}`), count('/api/v1/events')]).toEqual([0, 1]);
    await ui.visit('/overview');
    await hands.main.locator('canvas').first().waitFor();
    expect([count(`/assets/${charts[0]}`), count('/api/v1/events')]).toEqual([1, 1]);
    page.off('request', note);
  });
});
