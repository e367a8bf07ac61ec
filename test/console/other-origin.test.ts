import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningAmbit, repository, startAmbit } from '../journeys/start-ambit.ts';
import { hasChromium, openBrowser } from './browser.ts';
import { control, makeLink, type OpenConsole, openConsole } from './open-console.ts';

/** What a request of the page got: the text that it could read, or why it could not. */
type Got = readonly [what: string, outcome: string];

interface Entry {
  readonly kind: string;
  readonly event?: string;
}

describe.runIf(hasChromium())('a page on another port of the same host', () => {
  let browser: Browser;
  let gateway: RunningAmbit;
  let server: Server;
  let victim: OpenConsole;
  /** In a second tab of the browser in which the console is signed in. */
  let page: Page;
  beforeAll(async () => {
    server = createServer((_, response) => {
      response.setHeader('content-type', 'text/html');
      response.end('<!doctype html><title>Other</title><p>Win a prize!');
    }).listen(0, '127.0.0.1');
    [browser, gateway] = await Promise.all([openBrowser(), startAmbit({}), once(server, 'listening')]);
    await gateway.session({ name: 'harvest' });
    victim = await openConsole(browser, gateway);
    page = await victim.page.context().newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
    server?.close();
  });

  const ask = <T>(path: string) => control<T>(gateway, 'GET', path);

  /** Everything that an attack could change. The refusals themselves are in the journal too. */
  async function readState() {
    const { sessions } = await ask<{ sessions: { id: string }[] }>('/api/v1/sessions');
    const { consoles } = await ask<{ consoles: { id: string }[] }>('/api/v1/consoles');
    const { entries } = await ask<{ entries: Entry[] }>('/api/v1/journal?limit=200');
    const kept = entries.filter(({ kind }) => kind !== 'refusal');
    return { sessions: sessions.map(({ id }) => id), consoles: consoles.map(({ id }) => id), kept };
  }

  /** Sends every kind of request that a page can send to the gateway, and returns what it got. */
  const attack = (from: Page) =>
    from.evaluate(async (gatewayUrl): Promise<Got[]> => {
      const requests: readonly (readonly [string, RequestInit])[] = [
        ['/', {}],
        ['/api/v1/sessions', {}],
        ['/api/v1/sessions', { headers: { authorization: 'Bearer x' } }],
        ['/api/v1/consoles', { method: 'POST', body: '{}' }],
        ['/api/v1/consoles', { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } }],
        ['/api/v1/sessions', { method: 'POST', body: '{}' }],
        ['/mcp', { method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' }],
      ];
      const got: Got[] = [];
      for (const [path, init] of requests) {
        for (const mode of ['cors', 'no-cors'] as const) {
          for (const credentials of ['include', 'omit'] as const) {
            const what = `${init.method ?? 'GET'} ${path} ${mode} ${credentials}`;
            const answer = await fetch(gatewayUrl + path, { ...init, mode, credentials }).then(
              async (response) => `${response.status} ${(await response.text()).length > 0 ? 'text' : 'nothing'}`,
              (error: Error) => error.name,
            );
            got.push([what, answer]);
          }
        }
      }
      got.push(['beacon', `${navigator.sendBeacon(`${gatewayUrl}/api/v1/consoles`, '{}')}`]);
      return got;
    }, gateway.url);

  test('S10: reads no answer and changes nothing, whatever it sends', async () => {
    const before = await readState();
    const got = await attack(page);
    const nothing = ['TypeError', '0 nothing'];
    expect(got.filter(([, outcome]) => !nothing.includes(outcome))).toEqual([['beacon', 'true']]);
    expect(got).toHaveLength(29);
    // The same requests of the console's own page get answers: the browser did send them.
    const own = await attack(victim.page);
    expect(own.filter(([, outcome]) => outcome === '200 text').map(([what]) => what)).toHaveLength(4);
    expect(own.filter(([, outcome]) => outcome === '401 text').length).toBeGreaterThan(10);

    const [script] = (await readdir(join(repository, 'dist/console/assets'))).filter((name) => name.endsWith('.js'));
    const loads = await page.evaluate(
      async ([gatewayUrl, name]) => {
        const hear = (from: EventTarget) =>
          new Promise<string>((resolve) => {
            for (const event of ['load', 'open', 'message', 'error'])
              from.addEventListener(event, () => resolve(event));
          });
        const load = (tag: 'script' | 'img', path: string) => {
          const element = document.createElement(tag);
          element.src = gatewayUrl + path;
          document.body.append(element);
          return hear(element);
        };
        const stream = new EventSource(`${gatewayUrl}/api/v1/events`, { withCredentials: true });
        const socket = new WebSocket(`${gatewayUrl.replace('http', 'ws')}/api/v1/events`);
        return Promise.all([
          load('script', `/assets/${name}`),
          load('img', '/favicon.svg'),
          hear(stream),
          hear(socket),
        ]);
      },
      [gateway.url, script as string] as const,
    );
    expect(loads).toEqual(['error', 'error', 'error', 'error']);

    // A form may send what it wants, and the browser shows the answer. It is none.
    const fields = { '{"trustLevel":"direct","name":"': '"}', code: 'ambo_x' };
    for (const enctype of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
      for (const path of ['/api/v1/sessions', '/api/v1/consoles', '/api/v1/stop']) {
        const answer = page.context().waitForEvent('response', (response) => response.url() === gateway.url + path);
        const opened = page.waitForEvent('popup');
        await page.evaluate(
          ([action, type, values]) => {
            const form = document.createElement('form');
            Object.assign(form, { action, enctype: type, method: 'post', target: '_blank' });
            for (const [name, value] of Object.entries(values))
              form.append(Object.assign(document.createElement('input'), { name, value }));
            document.body.append(form);
            form.submit();
          },
          [gateway.url + path, enctype, fields] as const,
        );
        const response = await answer;
        expect([enctype, path, response.request().method()]).toEqual([enctype, path, 'POST']);
        expect([400, 401, 403, 404, 415]).toContain(response.status());
        await (await opened).close();
      }
    }
    expect(await readState()).toEqual(before);
  });

  test('S10: neither frames the console nor reaches a window that it has opened', async () => {
    await page.evaluate(async (gatewayUrl) => {
      const frame = document.createElement('iframe');
      const loaded = new Promise((resolve) => frame.addEventListener('load', resolve));
      frame.src = gatewayUrl;
      document.body.append(frame);
      await loaded;
    }, gateway.url);
    const [, framed] = page.frames();
    expect([framed?.url(), await framed?.locator('main').count()]).toEqual(['chrome-error://chromewebdata/', 0]);

    const opened = page.waitForEvent('popup');
    await page.evaluate((gatewayUrl) => {
      Object.assign(globalThis, { stolen: open(gatewayUrl, 'console') });
    }, gateway.url);
    const popup = await opened;
    // The sign-in of the other tab does not come along.
    await popup.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    expect(await popup.evaluate(() => [sessionStorage.length, String(opener)])).toEqual([0, 'null']);
    await popup.goto(await makeLink(gateway));
    await popup.locator('#navigation').waitFor();
    await page.waitForFunction(() => (globalThis as unknown as { stolen: Window }).stolen.closed);
    const before = await readState();
    const got = await page.evaluate((gatewayUrl) => {
      const { stolen } = globalThis as unknown as { stolen: Window };
      const attempts: Readonly<Record<string, () => unknown>> = {
        address: () => stolen.location.href,
        document: () => stolen.document.body.innerHTML,
        storage: () => stolen.sessionStorage.getItem('ambit-console'),
        frames: () => stolen.length,
        message: () => stolen.postMessage({ token: 'x' }, '*'),
        navigation: () => {
          stolen.location.href = `${gatewayUrl}/#/journal`;
        },
        // Asks for the window by its name, and gets a new one.
        name: () => open('', 'console')?.location.href,
      };
      return Object.entries(attempts).map(([what, attempt]) => {
        try {
          return [what, String(attempt())];
        } catch (error) {
          return [what, (error as Error).name];
        }
      });
    }, gateway.url);
    expect(Object.fromEntries(got)).toEqual({
      address: 'SecurityError',
      document: 'SecurityError',
      storage: 'SecurityError',
      frames: '0',
      message: 'undefined',
      navigation: 'undefined',
      name: 'about:blank',
    });
    expect(await popup.evaluate(() => location.hash)).toBe('#/overview');
    expect(await readState()).toEqual(before);
  });
});
