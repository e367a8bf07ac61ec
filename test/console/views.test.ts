import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../proof.ts';
import { type AuthorizationServer, authorizationServer, browse } from '../upstreams/auth/authorization-server.ts';
import { type GuardedUpstream, guardedUpstream } from '../upstreams/auth/guarded-upstream.ts';
import { findAccessFaults, findOverflow, hasChromium, openBrowser, openTab, type Scheme } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { control, type OpenConsole, openConsole } from './open-console.ts';

interface Review {
  readonly definitionHash: string;
  readonly pinsHash: string;
}

const widths = [390, 768, 1440] as const;
const schemes: readonly Scheme[] = ['light', 'dark'];

function leadOf({ sessions }: BusyGateway): string {
  return `/sessions/${sessions.lead.id}`;
}

/** Every view, with what it must show, in all its states. */
const views: readonly { readonly address: string | ((of: BusyGateway) => string); readonly shows: string }[] = [
  { address: '/overview', shows: 'no-secrets' },
  { address: '/sessions', shows: 'lead' },
  { address: '/sessions?text=nothing-like-this', shows: 'No session matches these filters' },
  { address: '/sessions?state=ended', shows: 'yesterday' },
  { address: leadOf, shows: 'Plan the beds for spring' },
  { address: ({ sessions }) => `/sessions/${sessions.sandboxed.id}`, shows: 'clerk' },
  { address: ({ sessions }) => `/sessions/${sessions.ended.id}`, shows: 'yesterday' },
  { address: '/servers', shows: 'shelf' },
  { address: '/servers/everything', shows: 'get-env' },
  { address: '/servers/broken', shows: 'The database cannot be opened.' },
  { address: '/servers/shelf', shows: 'unapproved' },
  { address: '/workspaces', shows: 'garden' },
  { address: '/people', shows: 'ada' },
  { address: '/people?tab=keys', shows: 'sandboxed' },
  { address: '/people?tab=credentials', shows: 'NOTES_TOKEN' },
  { address: '/people?tab=logins', shows: 'far' },
  { address: '/policies', shows: 'require-tests' },
  { address: '/policies?tab=objectives', shows: 'Reduce deployment time' },
  { address: '/policies?tab=preview&user=ada', shows: 'All code changes must include tests.' },
  { address: '/rules', shows: 'no-secrets' },
  { address: '/journal', shows: 'lead' },
  { address: '/nothing', shows: 'no view at this address' },
];

/** One dialog of each kind, with the button that opens it. */
const dialogs: readonly (readonly [address: string | ((of: BusyGateway) => string), button: string, title: string])[] =
  [
    ['/servers', 'Add a server…', 'Add a server'],
    ['/servers', 'Import…', 'Import servers'],
    ['/servers/shelf', 'Review and approve…', 'Review of shelf'],
    [leadOf, 'Message…', 'Message to the session'],
    [leadOf, 'Restrict…', 'Restrict the session'],
    [leadOf, 'End…', 'End the session'],
    [leadOf, 'Merge into the workspace…', 'Merge into the workspace'],
    ['/people', 'Add user', 'Add user'],
    ['/people?tab=keys', 'Create key', 'Create key'],
    ['/people?tab=credentials', 'Set credential', 'Set credential'],
    ['/people?tab=logins', 'Start login', 'Start login'],
    ['/policies', 'Add policy', 'Add policy'],
  ];

describe.runIf(hasChromium())('the views of the console', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  let provider: AuthorizationServer;
  let far: GuardedUpstream;
  let resized: OpenConsole;
  beforeAll(async () => {
    provider = await authorizationServer();
    far = await guardedUpstream(provider.issuer, provider.jwksUri);
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
    const credential = { userId: 'ada', server: 'notes', env: 'NOTES_TOKEN', value: 'planted' };
    await control(gateway, 'POST', '/api/v1/credentials', credential);
    await logIn();
    resized = await openConsole(browser, gateway);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
    await far?.close();
    await provider?.close();
  });

  /** Logs ada in at a server over HTTP. */
  async function logIn(): Promise<void> {
    const ask = <T>(path: string, body: object) => control<T>(gateway, 'POST', `/api/v1/${path}`, body);
    await ask('servers', { name: 'far', url: far.url });
    const { definitionHash, pinsHash } = await ask<Review>('servers/far/review', {});
    await ask('servers/far/approve', { definitionHash, pinsHash });
    const login = { userId: 'ada', server: 'far' };
    // Nobody listens at that port: the address that the browser is sent to is completed by hand.
    const { authorizationUrl } = await ask<{ authorizationUrl: string }>('logins', { ...login, port: 9 });
    const callback = await browse(authorizationUrl, (url) => url.startsWith('http://127.0.0.1:9/'));
    await ask('logins/complete', { ...login, callback });
  }

  const addressOf = (address: string | ((of: BusyGateway) => string)) =>
    typeof address === 'string' ? address : address(gateway);

  test('the first load has at most 60 KB of compressed script, also with the charts', async () => {
    const { page, visit, close } = await openConsole(browser, gateway);
    await visit('/overview');
    await page.locator('main canvas').first().waitFor();
    const sizes = await page.evaluate(() => {
      const scripts = performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('.js'));
      return (scripts as PerformanceResourceTiming[]).map(({ encodedBodySize }) => encodedBodySize);
    });
    expect(sizes.length).toBeGreaterThan(1);
    expect(Math.min(...sizes)).toBeGreaterThan(0);
    expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(60 * 1024);
    await close();
  });

  /** In `npm test`, each view has one of the six combinations; in the proof all. */
  const cells = widths.flatMap((width) => schemes.map((scheme) => ({ width, scheme })));
  const shown = (cell: number) => views.filter((_, at) => proof || at % cells.length === cell);

  test.each(cells.map((cell, at) => ({ ...cell, at })))(
    'U3: at $width pixels, $scheme: no serious finding of axe, nothing beyond the edge, no error',
    async ({ width, scheme, at }) => {
      const { page, visit, problems } = resized;
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
      for (const { address, shows } of shown(at)) {
        const to = addressOf(address);
        await visit(to);
        await page.locator('main').getByText(shows).filter({ visible: true }).first().waitFor();
        expect([to, await findAccessFaults(page)]).toEqual([to, []]);
        expect([to, await findOverflow(page)]).toEqual([to, []]);
      }
      expect(problems).toEqual([]);
    },
  );

  // In `npm test`, each dialog has one of the two.
  test.each([
    { at: 0, width: 390, scheme: 'dark' },
    { at: 1, width: 1440, scheme: 'light' },
  ] as const)(
    'U3: at $width pixels, $scheme: the same of the sign-in page and of each dialog',
    async ({ at, ...options }) => {
      const outside = await openTab(browser, gateway.url, options);
      await outside.page.goto(gateway.url);
      await outside.page.getByLabel('Or paste the admin token').waitFor();
      expect([await findAccessFaults(outside.page), await findOverflow(outside.page)]).toEqual([[], []]);
      expect(outside.problems).toEqual([]);
      await outside.close();

      const { page, visit, problems } = resized;
      await page.setViewportSize({ width: options.width, height: 900 });
      await page.emulateMedia({ colorScheme: options.scheme, reducedMotion: 'reduce' });
      for (const [address, button, title] of dialogs.filter((_, place) => proof || place % 2 === at)) {
        await visit(addressOf(address));
        await page.locator('main').getByRole('button', { name: button, exact: true }).click();
        const dialog = page.getByRole('dialog', { name: title, exact: true });
        await dialog.locator('.dialog-actions').waitFor();
        await page.waitForFunction(() => document.querySelector('dialog .loading') === null);
        expect([title, await findAccessFaults(page, 'dialog')]).toEqual([title, []]);
        expect([title, await findOverflow(page)]).toEqual([title, []]);
        const { left, right, hidden } = await dialog.evaluate((element) => {
          const box = element.getBoundingClientRect();
          return { left: box.left, right: box.right, hidden: element.scrollWidth - element.clientWidth };
        });
        expect([title, left >= 0, right <= options.width, hidden]).toEqual([title, true, true, 0]);
        await page.keyboard.press('Escape');
        await dialog.waitFor({ state: 'detached' });
      }
      expect(problems).toEqual([]);
    },
  );

  describe('on one page', () => {
    beforeAll(() => resized.page.setViewportSize({ width: 1440, height: 900 }));

    test('each number of the overview leads to a list of that many lines', async () => {
      const { page, visit, problems } = resized;
      await visit('/overview');
      const numbers = await page
        .locator('[aria-label="In this time"] a, [aria-label="Refusals by rule"] a, tr:nth-child(-n + 2) a')
        .evaluateAll((links) =>
          links.map((link) => ({
            href: (link as HTMLAnchorElement).hash.slice(1),
            text: (link.querySelector('.figure-value') ?? link).textContent,
          })),
        );
      const counts = numbers.filter(({ text }) => /^[1-9]\d*$/.test(text));
      expect(counts.length).toBeGreaterThan(7);
      expect(counts.some(({ text }) => Number(text) > 1)).toBe(true);
      for (const { href, text } of counts) {
        await visit(href);
        const lines = page.locator('.view-aside').getByText(new RegExp(`^${text} lines?$`));
        await expect(lines.waitFor(), href).resolves.toBeUndefined();
      }
      // Durations lead to the calls that they are of.
      const durations = numbers.filter(({ href, text }) => text.endsWith('s') && href.includes('tool='));
      expect(durations.length).toBe(4);
      await visit('/overview');
      const [calls] = await page.locator('.chart-key strong').allTextContents();
      expect(calls).toBe(counts[0]?.text);
      expect(problems).toEqual([]);
    });

    test('a new session shows its limits and stands below its parent, and an ended one is found', async () => {
      const { page, visit, problems } = resized;
      const { lead } = gateway.sessions;
      await visit('/sessions');
      const rows = page.locator('.table-window tbody tr');
      await rows.getByText('lead', { exact: true }).waitFor();
      const { id } = await gateway.session({ name: 'seedlings', parentId: lead.id, quotas: { totalCalls: 7 } });
      await rows.filter({ hasText: 'seedlings' }).getByText('0 of 7 calls').waitFor();
      const names = await page.locator('.session-name').allTextContents();
      expect(names.slice(names.indexOf('lead'))).toEqual(['lead', '└seedlings', '└beds']);
      await page.getByRole('link', { name: '2 children' }).click();
      await page.getByText('3 sessions of 4').waitFor();
      await page.getByRole('link', { name: 'Show all families' }).click();

      await visit('/sessions?state=ended');
      await page.getByText('1 ended session', { exact: true }).waitFor();
      await control(gateway, 'DELETE', `/api/v1/sessions/${id}`);
      await page.getByText('2 ended sessions', { exact: true }).waitFor();
      await page.getByLabel('Search').fill('SEED');
      await page.getByText('1 session of the 2 loaded ones.').waitFor();
      expect(await page.locator('.session-name').allTextContents()).toEqual(['seedlings']);
      expect(problems).toEqual([]);
    });

    test('the address alone filters the journal, names of ended sessions match, and new lines are counted', async () => {
      const { page, visit, problems } = resized;
      const { lead, ended } = gateway.sessions;
      await visit('/journal?session=yesterday&kind=session&event=ended');
      await page.locator('.journal-item').getByText('yesterday').waitFor();
      expect(
        await page.locator('.journal-session').evaluateAll((cells) => cells.map((cell) => cell.getAttribute('title'))),
      ).toEqual([ended.id]);
      await visit('/overview');
      await page.getByRole('link', { name: 'Journal' }).click();
      await page.locator('.journal-item').nth(5).waitFor();
      expect(await page.evaluate(() => location.hash)).toBe('#/journal');
      await visit('/journal?kind=file');
      await page.locator('.journal-item').first().waitFor();
      const count = await page.locator('.journal-item').count();
      await gateway.call(lead, 'session_read_file', { path: 'plan.md' });
      await page.evaluate(() => document.dispatchEvent(new Event('visibilitychange')));
      await page.getByRole('button', { name: 'Show it' }).click();
      await page.locator('.journal-item').nth(count).waitFor();
      expect(await page.locator('.journal-news').textContent()).toBe('');
      expect(problems).toEqual([]);
    });
  });
});
