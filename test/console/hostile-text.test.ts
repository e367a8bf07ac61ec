import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readEvents } from '../entrances/http/event-reader.ts';
import { findOverflow, hasChromium, openBrowser } from './browser.ts';
import { type HostileGateway, hostile, startHostileGateway } from './hostile-gateway.ts';
import { openConsole } from './open-console.ts';

/** Filters as a link of somebody else could name them. */
const filter = `${hostile}\n touch canary\n`;
const filters = [
  'text',
  'words',
  'user',
  'workspace',
  'server',
  'tool',
  'session',
  'kind',
  'outcome',
  'since',
  'until',
];
const filterQuery = filters.map((name) => `${name}=${encodeURIComponent(filter)}`).join('&');

/** What the page shows or holds of hostile text, other than plain text that everybody can see. */
function findHarm(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    // Line breaks and tabs are shown as such.
    const hidden =
      /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u2028-\u202e\u2800]|(?!\ufe0f)\p{Default_Ignorable_Code_Point}|(?<!\p{Extended_Pictographic})\ufe0f|\p{M}{9}/u;
    const found: string[] = [];
    const check = (where: string, text: string) => {
      const at = text.search(hidden);
      if (at !== -1) found.push(`${where}: ${JSON.stringify(text.slice(Math.max(0, at - 40), at + 20))}`);
    };
    const isOwn = {
      src: /^(?:\.\/favicon\.svg|(?:\.?\/|http:\/\/127\.0\.0\.1:\d+\/)assets\/[\w-]+\.js)$/,
      href: /^[#.]/,
    };
    check('title', document.title);
    for (const element of document.querySelectorAll('*')) {
      const name = `${element.closest('[class]')?.className} ${element.tagName}`;
      const isField = element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement;
      for (const node of element.childNodes)
        if (node.nodeType === Node.TEXT_NODE && !isField) check(name, node.textContent ?? '');
      for (const { name: attribute, value } of element.attributes) {
        // Fields hold what was typed, and nobody sees the path.
        if (!(isField && attribute === 'value') && attribute !== 'data-path') check(`${name}[${attribute}]`, value);
        const own = attribute === 'src' || attribute === 'href' ? isOwn[attribute] : /^(?!on)/;
        const isAsset = element.tagName === 'LINK' && value.includes('/assets/');
        const judged = attribute === 'src' || attribute === 'href' ? value : attribute;
        if (!own.test(judged) && !isAsset) found.push(`${name}[${attribute}=${value}]`);
      }
    }
    if ('hurt' in globalThis) found.push('a script has run');
    return found;
  });
}

/** Opens all that can be opened in place. */
async function unfold(page: Page): Promise<void> {
  await page.evaluate(() => {
    for (const details of document.querySelectorAll('main details, dialog details')) details.setAttribute('open', '');
    for (const button of document.querySelectorAll<HTMLElement>('.text-more, .journal-line')) button.click();
  });
  await page.waitForFunction(() => document.querySelector('.journal-line[aria-expanded=false]') === null);
}

describe.runIf(hasChromium())('hostile text', () => {
  let browser: Browser;
  let gateway: HostileGateway;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startHostileGateway()]);
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  const check = async (page: Page, what: string) =>
    expect([what, await findHarm(page), await findOverflow(page)]).toEqual([what, [], []]);

  test('would be found if it were more than text', async () => {
    const page = await browser.newPage();
    const find = async (html: string) => {
      await page.setContent(`<!doctype html><title>Console</title><main class="view">${html}</main>`);
      // The first harm below runs its script, and the page stays the same one.
      return (await findHarm(page)).filter((found) => found !== 'a script has run');
    };
    expect(await find('<a href="#/sessions">lead</a> <img src="./favicon.svg" alt=""> plain\ttext ❤\ufe0f 😀')).toEqual(
      [],
    );
    const harms = [
      '<img src="x" onerror="hurt=1">',
      '<a href="javascript:hurt=1">x</a>',
      '<a href="https://other.example/">x</a>',
      '<p title="\u202egpj.exe">x</p>',
      '<p>a\u200bb</p>',
      ...['\ufe00', '\ufe0f', '❤\ufe0f\ufe0f', '\u{e0100}', '\u{e0041}', '\u{e0002}', '\u034f', '\u180b', '\u17b4'].map(
        (each) => `<p>a${each}b</p>`,
      ),
      ...['\u2065', '\ufff0', '\u2800', '\u115f', '\u1160', '\u3164', '\uffa0'].map((each) => `<p>a${each}b</p>`),
      '<p>\u001b[31mred</p>',
      `<p>Z${'\u0335'.repeat(60)}</p>`,
      '<input placeholder="\u202e">',
    ];
    for (const harm of harms) expect([harm, (await find(harm)).length > 0]).toEqual([harm, true]);
    await page.evaluate(() => Object.assign(globalThis, { hurt: 1 }));
    await page.evaluate(() => document.querySelector('main')?.remove());
    expect(await findHarm(page)).toEqual(['a script has run']);
    await page.close();
  });

  test('is text in every view, and no answer holds a secret', async () => {
    const { live, ended, secrets } = gateway;
    const { page, visit, problems, close } = await openConsole(browser, gateway, { width: 390 });
    const answers: Promise<string>[] = [];
    page.on('response', (response) => {
      if (!response.url().includes('/events')) answers.push(response.text().catch(() => ''));
    });
    const token = secrets.get('admin token') as string;
    const events = await readEvents(`${gateway.url}/api/v1/events?activity=true`, { authorization: `Bearer ${token}` });
    const views: readonly (readonly [address: string, shows: string, dialogs?: Readonly<Record<string, string>>])[] = [
      ['/overview', 'mouth'],
      ['/sessions', 'live'],
      ['/sessions?state=ended', 'ended'],
      [
        `/sessions/${live.id}`,
        '<img',
        { 'Tool HURT': 'Correlation id', 'session_edit_file wrote <img': 'Path in the workspace', 'Message…': 'live' },
      ],
      [`/sessions/${ended.id}`, '<img', { 'The session sent a message': 'Recipient' }],
      ['/servers', 'mouth'],
      ['/servers/mouth', '<img'],
      ['/servers/broken', '<img', { 'Check…': 'HURT' }],
      ['/servers/away', 'X-Token'],
      ['/servers/added', '<img', { 'Review and approve…': 'HURT' }],
      ['/workspaces', 'garden'],
      ['/people', 'ada'],
      ['/people?tab=keys', 'ada'],
      ['/people?tab=credentials', 'ada'],
      ['/people?tab=logins', 'There are no logins yet.'],
      ['/policies', '<img', { 'Edit policy other': 'HURT', 'Remove policy other': 'HURT' }],
      ['/policies?tab=objectives', '<img', { 'Remove objective': 'HURT' }],
      ['/policies?tab=preview&user=ada&workspace=garden', '<img'],
      [`/rules?session=${live.id}&tool=mouth__say`, 'no-hurt'],
      ['/journal', '<img'],
    ];
    for (const [address, shows, dialogs = {}] of views) {
      await visit(address);
      await page.locator('main').getByText(shows).filter({ visible: true }).first().waitFor();
      await unfold(page);
      await check(page, address);
      await page.setViewportSize({ width: 1440, height: 900 });
      await check(page, address);
      for (const [button, shown] of Object.entries(dialogs)) {
        await page.locator('main').getByRole('button', { name: button }).first().click();
        const dialog = page.getByRole('dialog');
        await dialog.getByText(shown).first().waitFor();
        await unfold(page);
        await check(page, `${address} ${button}`);
        await page.keyboard.press('Escape');
        await dialog.waitFor({ state: 'detached' });
      }
      await page.setViewportSize({ width: 390, height: 900 });
    }
    expect(problems).toEqual([]);
    await close();
    events.close();
    const told = [...(await Promise.all(answers)), JSON.stringify(events.heard)];
    // The answers can be read, and are of all views.
    expect(told.filter((text) => text.includes(live.id)).length).toBeGreaterThan(5);
    expect(told.length).toBeGreaterThan(40);
    const leaked = [...secrets].filter(([, secret]) => told.some((text) => text.includes(secret)));
    expect(leaked.map(([name]) => name)).toEqual([]);
  });

  test('is text in the address too, and one word of the commands that readers copy', async () => {
    const { page, visit, close } = await openConsole(browser, gateway, { width: 390 });
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: gateway.url });
    const lists = [
      '/sessions?',
      '/sessions?state=ended&',
      '/servers?',
      '/workspaces?',
      '/people?',
      '/people?tab=keys&',
    ];
    const more = ['/policies?', '/policies?tab=preview&', '/rules?', '/journal?'];
    const path = encodeURIComponent(hostile);
    const commands = new Set<string>();
    for (const address of [
      ...[...lists, ...more].map((list) => list + filterQuery),
      ...[`/sessions/${path}`, `/servers/${path}`, `/${path}`, '/journal?id=a%27%3Btouch%20canary%3B%27'],
      `/rules?session=${gateway.live.id}&tool=${path}&args=${encodeURIComponent(JSON.stringify({ word: filter }))}`,
    ]) {
      await visit(address);
      await unfold(page);
      await check(page, address);
      for (const command of await copyCommands(page)) commands.add(command);
    }
    await close();
    const run = await pasteIntoShell([...commands]);
    expect(run.files).toEqual(['ambit', 'curl', 'log']);
    expect(run.calls.length).toBe(commands.size);
    const given = run.calls.flat();
    for (const word of [filter.trim(), `{"word":${JSON.stringify(filter)}}`, hostile, "a';touch canary;'"])
      expect(given).toContain(word);
    // No terminal obeys what is pasted.
    expect([...commands].filter((command) => /\p{Cc}/u.test(command))).toEqual([]);
  });

  /** Presses every button that copies a command, and reads the clipboard. */
  function copyCommands(page: Page): Promise<string[]> {
    return page.evaluate(async () => {
      const copied: string[] = [];
      for (const button of document.querySelectorAll<HTMLElement>('.same-data-line button')) {
        await navigator.clipboard.writeText('');
        button.click();
        while ((await navigator.clipboard.readText()) === '') await new Promise(requestAnimationFrame);
        copied.push(await navigator.clipboard.readText());
      }
      return copied;
    });
  }

  /** Pastes each command into a shell in which the programs only write down their arguments. */
  async function pasteIntoShell(commands: readonly string[]) {
    const folder = await mkdtemp(join(tmpdir(), 'ambit-paste-'));
    for (const name of ['ambit', 'curl']) {
      await writeFile(join(folder, name), `#!/bin/sh\nprintf '%s\\0' "$@" end-of-call >> log\n`);
      await chmod(join(folder, name), 0o755);
    }
    const env = { PATH: `${folder}:${process.env['PATH']}`, AMBIT_ADMIN_TOKEN: 'x' };
    for (const command of commands) {
      const { status, stderr } = spawnSync('sh', { input: `${command}\n`, cwd: folder, env });
      expect([command, status, stderr.toString()]).toEqual([command, 0, '']);
    }
    const log = await readFile(join(folder, 'log'), 'utf8');
    const calls = log.split('end-of-call\0').slice(0, -1);
    const files = (await readdir(folder)).sort();
    await rm(folder, { recursive: true });
    return { files, calls: calls.map((call) => call.split('\0').slice(0, -1)) };
  }
});
