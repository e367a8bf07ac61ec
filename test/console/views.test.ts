import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../proof.ts';
import { findAccessFaults, findOverflow, hasChromium, openBrowser, type Scheme } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { openConsole } from './open-console.ts';

const widths = [390, 768, 1440] as const;
const schemes: readonly Scheme[] = ['light', 'dark'];

/** Every view, with what it must show, in all its states. */
const views: readonly { readonly address: string | ((of: BusyGateway) => string); readonly shows: string }[] = [
  { address: '/overview', shows: 'no-secrets' },
  { address: '/sessions', shows: 'lead' },
  { address: '/sessions?text=nothing-like-this', shows: 'No session matches these filters' },
  { address: '/sessions?state=ended', shows: 'yesterday' },
  { address: ({ sessions }) => `/sessions/${sessions.lead.id}`, shows: 'Plan the beds for spring' },
  { address: ({ sessions }) => `/sessions/${sessions.sandboxed.id}`, shows: 'clerk' },
  { address: ({ sessions }) => `/sessions/${sessions.ended.id}`, shows: 'yesterday' },
  { address: '/servers', shows: 'shelf' },
  { address: '/servers/everything', shows: 'everything' },
  { address: '/servers/broken', shows: 'The database cannot be opened.' },
  { address: '/servers/shelf', shows: 'unapproved' },
  { address: '/workspaces', shows: 'garden' },
  { address: '/people', shows: 'ada' },
  { address: '/people?tab=keys', shows: 'sandboxed' },
  { address: '/people?tab=credentials', shows: 'redential' },
  { address: '/people?tab=logins', shows: 'ogin' },
  { address: '/policies', shows: 'require-tests' },
  { address: '/policies?tab=objectives', shows: 'Reduce deployment time' },
  { address: '/policies?tab=preview', shows: 'Preview' },
  { address: '/rules', shows: 'no-secrets' },
  { address: '/journal', shows: 'lead' },
  { address: '/nothing', shows: 'no view at this address' },
];

describe.runIf(hasChromium())('the views of the console', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });

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
      const { page, visit, problems, close } = await openConsole(browser, gateway, { width, scheme });
      for (const { address, shows } of shown(at)) {
        const to = typeof address === 'string' ? address : address(gateway);
        await visit(to);
        await page.locator('main').getByText(shows).filter({ visible: true }).first().waitFor();
        expect([to, await findAccessFaults(page)]).toEqual([to, []]);
        expect([to, await findOverflow(page)]).toEqual([to, []]);
      }
      expect(problems).toEqual([]);
      await close();
    },
  );
});
