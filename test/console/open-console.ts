import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { requestControl } from '../journeys/request-control.ts';
import type { RunningAmbit } from '../journeys/start-ambit.ts';
import { openTab, type PageOptions, type Tab } from './browser.ts';

/** The console of a gateway, signed in. */
export interface OpenConsole extends Tab {
  /** Shows the view with this address, such as `/sessions?state=ended`, and waits until its data is there. */
  visit(address: string): Promise<void>;
}

interface ConsoleOptions extends PageOptions {
  readonly role?: 'admin' | 'viewer';
}

type Gateway = Pick<RunningAmbit, 'url' | 'dataDir'>;

/** Makes a link that signs in once. */
export async function makeLink({ dataDir }: Gateway, role: 'admin' | 'viewer' = 'admin'): Promise<string> {
  const { url } = await control<{ url: string }>({ dataDir }, 'POST', '/api/v1/consoles/links', { role });
  return url;
}

export function control<T>(
  { dataDir }: Pick<Gateway, 'dataDir'>,
  method: string,
  path: string,
  body?: unknown,
): Promise<T> {
  return requestControl<T>(join(dataDir, 'control.sock'), method, path, body);
}

export async function readAdminToken({ dataDir }: Gateway): Promise<string> {
  return (await readFile(join(dataDir, 'admin-token'), 'utf8')).trim();
}

/** Opens a tab and signs it in with a one-time link. */
export async function openConsole(
  browser: Browser,
  gateway: Gateway,
  { role = 'admin', ...options }: ConsoleOptions = {},
): Promise<OpenConsole> {
  const tab = await openTab(browser, gateway.url, options);
  const { page } = tab;
  await page.goto(await makeLink(gateway, role));
  await page.locator('#navigation').waitFor({ state: 'attached' });
  return {
    ...tab,
    async visit(address) {
      await page.evaluate((to) => {
        location.hash = to;
      }, `#${address}`);
      await waitForView(page, address);
    },
  };
}

/** Waits until the view of this address is there, and none of its parts is still loading. */
export async function waitForView(page: Page, address: string): Promise<void> {
  const [path = ''] = address.slice(1).split('?');
  // The part of the address may hold any characters, so it is in no selector.
  await page.waitForFunction((shown) => {
    const main = document.querySelector<HTMLElement>('main');
    return main?.dataset['path'] === shown && main.querySelector('h1') !== null;
  }, decodeURIComponent(path));
  await page.waitForFunction(() => document.querySelector('main .loading') === null);
}
