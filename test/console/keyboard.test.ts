import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasChromium, openBrowser, openTab, type Tab, withoutLateReads } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { control, readAdminToken, waitForView } from './open-console.ts';

/** More places than any view has. */
const maxPlaces = 200;

/** Everything is done with `page.keyboard`; locators only say what is there. */
describe.runIf(hasChromium())('the console without a mouse', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  let tab: Tab;
  let page: Page;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
    tab = await openTab(browser, gateway.url);
    page = tab.page;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: gateway.url });
    await page.goto(gateway.url);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  /** Names the element that has the focus, as a screen reader does. */
  const readFocus = () =>
    page.evaluate(() => {
      const element = document.activeElement as HTMLInputElement;
      const label = element.labels?.[0]?.querySelector('span') ?? element.labels?.[0];
      return (element.getAttribute('aria-label') ?? label?.textContent ?? element.textContent ?? '').trim();
    });
  const hasFocus = (wanted: Locator) => wanted.evaluate((element) => element === document.activeElement);
  const waitForFocus = (wanted: Locator) => wanted.and(page.locator(':focus')).waitFor();

  /** Presses Tab until this element has the focus. */
  async function tabTo(wanted: Locator, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
    const passed: string[] = [];
    // Looking for it by its role each time would take longer than all else.
    const element = await wanted.elementHandle();
    for (let at = 0; at < maxPlaces; at += 1) {
      await page.keyboard.press(key);
      if (await page.evaluate((each) => each === document.activeElement, element)) return;
      passed.push(await readFocus());
    }
    throw new Error(`The Tab key does not reach ${wanted}; it reaches ${passed.join(' | ')}`);
  }

  async function press(wanted: Locator, key = 'Enter', way: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
    await tabTo(wanted, way);
    await page.keyboard.press(key);
  }

  const main = () => page.locator('main');
  const dialog = () => page.getByRole('dialog');
  const button = (name: string, inside: Page | Locator = page) => inside.getByRole('button', { name, exact: true });
  const viewLink = (name: string) => page.locator('#navigation').getByRole('link', { name, exact: true });
  const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });

  /** Goes back to the navigation, opens a view, and waits until its heading has the focus. */
  async function openView(name: string, address: string): Promise<void> {
    await press(viewLink(name), 'Enter', 'Shift+Tab');
    await waitForView(page, address);
    await waitForFocus(heading(name));
  }

  /** Goes round all places of the open dialog until it is back where it began, and returns their names. */
  async function goRound(): Promise<string[]> {
    const start = await page.evaluateHandle(() => document.activeElement);
    const names: string[] = [];
    while (names.length < maxPlaces) {
      await page.keyboard.press('Tab');
      // Between the last and the first place the browser itself may have the focus.
      const [place, isStart] = await page.evaluate((from) => {
        const element = document.activeElement as Element;
        const held = element === document.body ? 'browser' : element.closest('dialog') === null ? 'outside' : 'dialog';
        return [held, element === from] as const;
      }, start);
      names.push(place === 'dialog' ? await readFocus() : place);
      if (isStart) return names;
    }
    throw new Error(`The Tab key does not come back; it reaches ${names.join(' | ')}`);
  }

  test('U3: signs in by pasting the admin token, and skips the navigation', async () => {
    await page.evaluate((token) => navigator.clipboard.writeText(token), await readAdminToken(gateway));
    await tabTo(page.getByLabel('Or paste the admin token'));
    await page.keyboard.press('Control+V');
    await page.keyboard.press('Enter');
    await page.locator('#navigation').waitFor();
    await waitForView(page, '/overview');
    await page.keyboard.press('Tab');
    expect(await readFocus()).toBe('Skip to the content');
    await page.keyboard.press('Enter');
    await waitForFocus(main());
    await page.keyboard.press('Tab');
    expect(await main().locator(':focus').count()).toBe(1);
    expect(new URL(page.url()).hash).toBe('#/overview');
  });

  test('U3: finds a session with the filters, and walks through its timeline', async () => {
    await openView('Sessions', '/sessions');
    await tabTo(main().getByRole('searchbox', { name: 'Search' }));
    await page.keyboard.type('planner');
    await page.waitForURL(/#\/sessions\?text=planner$/);
    await tabTo(main().getByRole('combobox', { name: 'Trust level' }));
    await page.keyboard.press('ArrowDown');
    await page.waitForURL(/#\/sessions\?text=planner&trust=direct$/);
    await main().getByText('1 session of 3').waitFor();
    const { lead } = gateway.sessions;
    await press(main().getByRole('link', { name: 'lead', exact: true }));
    await waitForView(page, `/sessions/${lead.id}`);
    await waitForFocus(heading('lead'));

    const lane = (name: string) => main().getByRole('list', { name, exact: true }).getByRole('button');
    const [calls, refusals] = [lane('Calls'), lane('Refusals')];
    await tabTo(calls.first());
    const last = (await calls.count()) - 1;
    expect(last).toBeGreaterThan(2);
    const places: boolean[] = [];
    for (const [key, at] of [
      ['ArrowRight', 1],
      ['ArrowRight', 2],
      ['ArrowLeft', 1],
      ['End', last],
      ['ArrowRight', last],
      ['Home', 0],
      ['ArrowLeft', 0],
      ['End', last],
    ] as const) {
      await page.keyboard.press(key);
      places.push(await hasFocus(calls.nth(at)));
    }
    expect(places).not.toContain(false);
    // One bar of each lane takes part in the order of the Tab key: the one that had the focus last.
    await page.keyboard.press('Tab');
    expect(await hasFocus(refusals.first())).toBe(true);
    await page.keyboard.press('Shift+Tab');
    expect(await hasFocus(calls.last())).toBe(true);

    await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowRight');
    const refusal = refusals.nth(1);
    expect(await hasFocus(refusal)).toBe(true);
    await page.keyboard.press('Enter');
    await dialog().getByText('PERMISSION_DENIED').first().waitFor();
    expect(await dialog().locator(':focus').count()).toBe(1);
    await page.keyboard.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    expect(await hasFocus(refusal)).toBe(true);
  });

  test('U3: leaves the dialogs of a session with Escape, and ends the session by typing its name', async () => {
    for (const [name, title, field] of [
      ['Restrict…', 'Restrict the session', 'Trust level'],
      ['End…', 'End the session', 'Type lead to confirm'],
    ] as const) {
      await press(button(name));
      await page.getByRole('dialog', { name: title }).waitFor();
      expect(await dialog().locator(':focus').count()).toBe(1);
      const places = await goRound();
      expect(places).not.toContain('outside');
      expect(places).toEqual(expect.arrayContaining(['Close', field, 'Cancel']));
      await page.keyboard.press('Escape');
      await dialog().waitFor({ state: 'detached' });
      expect([name, await hasFocus(button(name))]).toEqual([name, true]);
    }
    await page.keyboard.press('Enter');
    await tabTo(dialog().getByLabel('Type lead to confirm'));
    await page.keyboard.type('lea');
    await page.keyboard.press('Enter');
    await page.keyboard.type('d');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    expect(await readFocus()).toBe('End lead');
    await page.keyboard.press('Enter');
    await dialog().waitFor({ state: 'detached' });
    await main().locator('.view-aside').getByText('ended', { exact: true }).waitFor();
    await waitForFocus(heading('lead'));
    const { sessions } = await control<{ sessions: { name: string }[] }>(gateway, 'GET', '/api/v1/sessions');
    expect(sessions.map(({ name }) => name)).not.toContain('lead');
  });

  test('U3: reads the journal with the arrow keys, chooses the theme, and signs out', async () => {
    await openView('Journal', '/journal');
    const lines = main().getByRole('list', { name: 'Journal lines, newest first' }).locator('.journal-line');
    await tabTo(lines.first());
    const places: boolean[] = [];
    for (const [key, at] of [
      ['ArrowUp', 0],
      ['ArrowDown', 1],
      ['Enter', 1],
      ['ArrowDown', 2],
      ['ArrowUp', 1],
    ] as const) {
      await page.keyboard.press(key);
      places.push(await hasFocus(lines.nth(at)));
    }
    expect(places).not.toContain(false);
    expect(await lines.evaluateAll((all) => all.slice(0, 3).map((each) => each.ariaExpanded))).toEqual([
      'false',
      'true',
      'false',
    ]);

    const account = page.locator('.account summary');
    await tabTo(account, 'Shift+Tab');
    await page.keyboard.press('Enter');
    await tabTo(page.getByLabel('Theme'));
    await page.keyboard.press('Escape');
    expect([await hasFocus(account), await button('Sign out').isVisible()]).toEqual([true, false]);
    await page.keyboard.press('Enter');
    await press(page.getByLabel('Theme'), 'D');
    expect(await page.evaluate(() => document.documentElement.dataset['theme'])).toBe('dark');
    await press(button('Sign out'));
    await page.getByText('You have signed out.').waitFor();
    expect(await page.evaluate(() => sessionStorage.length)).toBe(0);
    const { lead, child } = gateway.sessions;
    expect(withoutLateReads(tab.problems, [lead.id, child.id])).toEqual([]);
  });
});
