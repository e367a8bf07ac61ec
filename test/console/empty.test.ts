import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningAmbit, startAmbit } from '../journeys/start-ambit.ts';
import { hasChromium, openBrowser } from './browser.ts';
import { type OpenConsole, openConsole } from './open-console.ts';

/** The views, and what says there that there is nothing. */
const views: readonly (readonly [address: string, ...says: string[]])[] = [
  ['/overview', 'No tool was called in this time.'],
  ['/sessions', 'There are no live sessions.'],
  ['/sessions?state=ended', 'No session has ended in this time.'],
  ['/servers', 'The configuration has no servers.'],
  ['/workspaces', 'There are no workspaces'],
  ['/people', 'There are no users yet.'],
  ['/people?tab=keys', 'There are no keys yet.'],
  ['/people?tab=credentials', 'There are no credentials yet.'],
  ['/people?tab=logins', 'There are no logins yet.'],
  ['/policies', 'There are no policies yet.'],
  ['/policies?tab=objectives', 'There are no objectives yet.'],
  ['/policies?tab=preview', 'Choose a user.'],
  ['/policies?tab=preview&user=ada', 'No policy applies.', 'No objective applies.'],
  ['/rules', 'There is no live session.', 'There are no rules', 'No server restricts its tools'],
  ['/journal?words=nothing-like-this', 'No line matches these filters'],
];
const ofSession = [
  'The configuration has no servers.',
  'No policy or objective applies.',
  'No message waits.',
  'No tool has stored state.',
];
/** Nothing is to be done there. */
const complete = [
  'No process runs. The next call of a tool starts one.',
  'The session has no permissions, and no tool needs one.',
];

describe.runIf(hasChromium())('the console of a gateway in which there is nothing yet', () => {
  let browser: Browser;
  let gateway: RunningAmbit;
  let ui: OpenConsole;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startAmbit({})]);
    ui = await openConsole(browser, gateway);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  /** The parts of the view that have no content, each with whether it offers a link, a button or a command. */
  async function readEmpty(address: string, says: readonly string[]) {
    await ui.visit(address);
    for (const each of says) await ui.page.locator('main').getByText(each).first().waitFor();
    const parts = await ui.page.evaluate(() => {
      const isBare = (card: Element) => card.querySelector('li, tr, input, canvas, pre, .meter, .empty') === null;
      const cards = [...document.querySelectorAll('main .card')].filter(isBare);
      return [...document.querySelectorAll('main .empty, main .rules-session-list p.muted'), ...cards].map((part) => ({
        text: (part.querySelector('.empty-title, p.muted') ?? part).textContent ?? '',
        offers: part.querySelector('a, button, code') !== null,
      }));
    });
    return parts.filter(({ text }) => !complete.includes(text));
  }

  test('every part without content says what to do next', async () => {
    const silent: string[] = [];
    const check = async (address: string, says: readonly string[]) => {
      const parts = await readEmpty(address, says);
      const missing = says.filter((each) => !parts.some(({ text }) => text.startsWith(each)));
      expect([address, missing]).toEqual([address, []]);
      silent.push(...parts.filter(({ offers }) => !offers).map(({ text }) => `${address}: ${text}`));
    };
    for (const [address, ...says] of views) await check(address, says);
    const { id } = await gateway.session({ name: 'first' });
    await check(`/sessions/${id}`, ofSession);
    expect(silent).toEqual([]);
    expect(ui.problems).toEqual([]);
  });
});
