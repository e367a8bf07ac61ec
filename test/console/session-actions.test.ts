import { access, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CreatedSession } from '../journeys/start-ambit.ts';
import { hasBwrap } from '../needs/bwrap.ts';
import { hasChromium, openBrowser, withoutLateReads } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { control, type OpenConsole, openConsole } from './open-console.ts';

interface Details {
  readonly trustLevel: string;
  readonly ttlSeconds: number;
  readonly permissions: readonly string[];
  readonly servers: readonly string[] | null;
}

interface WorkspaceDetails {
  readonly folders: readonly { readonly sessionId: string; readonly kept: boolean }[];
}

describe.runIf(hasChromium())('a session in the console', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  let tab: OpenConsole;
  const endedIds: string[] = [];
  let page: Page;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
    tab = await openConsole(browser, gateway);
    page = tab.page;
  });
  afterAll(async () => {
    await browser?.close();
    await gateway?.stop();
  });

  const show = ({ id }: CreatedSession) => tab.visit(`/sessions/${id}`);
  const read = ({ id }: CreatedSession) => control<Details>(gateway, 'GET', `/api/v1/sessions/${id}`);
  const card = (title: string) =>
    page.locator('.card', { has: page.getByRole('heading', { level: 2, name: title, exact: true }) });
  const bar = (lane: string, label: RegExp) =>
    page.getByRole('list', { name: lane }).getByRole('button', { name: label });
  const dialog = () => page.getByRole('dialog');
  const button = (name: string, inside: Page | Locator = page) => inside.getByRole('button', { name, exact: true });

  /** Types another name first: only the name of the session makes the button work. */
  async function confirm(name: string, action: string): Promise<void> {
    const field = dialog().getByLabel(`Type ${name} to confirm`);
    await field.fill(`${name}2`);
    expect(await button(action, dialog()).isDisabled()).toBe(true);
    await field.fill(name);
    await button(action, dialog()).click();
  }

  /** Waits until the item of a lane has opened, and returns its text. */
  async function readOpened(): Promise<string> {
    const text = (await dialog().textContent()) ?? '';
    await button('Close', dialog()).click();
    await dialog().waitFor({ state: 'detached' });
    return text;
  }

  test('U1: a message of the operator is in the inbox and in the timeline, and the agent gets it', async () => {
    const { lead } = gateway.sessions;
    await tab.visit('/sessions');
    await page.locator(`main a[href="#/sessions/${lead.id}"]`).first().click();
    // The heading comes with the data. The focus moves to it then.
    await page.getByRole('heading', { level: 1, name: 'lead' }).and(page.locator(':focus')).waitFor();
    await button('Message…').click();
    await page.keyboard.type('Leave the north bed alone.');
    await button('Send to lead', dialog()).click();
    await page.getByText('The message is in the inbox of the session.').waitFor();
    await button('Message…').and(page.locator(':focus')).waitFor();
    await card('Inbox')
      .getByRole('listitem')
      .filter({ hasText: /operator.*Leave the north bed alone\./ })
      .waitFor();
    await card('Timeline').getByText('The operator sent a message of 26 B').first().waitFor();
    expect(await gateway.call(lead, 'session_inbox')).toContain('Leave the north bed alone.');
  });

  test('U1: a call under way is in the timeline before it ends', async () => {
    const waiter = await gateway.session({ name: 'waiter', userId: 'ada', workspaceId: 'garden' });
    await show(waiter);
    const call = gateway.call(waiter, 'session_inbox', { waitSeconds: 50 });
    const timeline = card('Timeline');
    await timeline.getByRole('button', { name: 'Tool session_inbox of Ambit is under way' }).first().click();
    expect(await readOpened()).toMatch(/Outcome\s*under way/);
    await control(gateway, 'POST', `/api/v1/sessions/${waiter.id}/messages`, { text: 'Go on.' });
    expect(await call).toContain('Go on.');
    await timeline.getByRole('button', { name: 'Tool session_inbox of Ambit was called' }).first().waitFor();
    await timeline.getByText('is under way').first().waitFor({ state: 'detached' });
  });

  test('U1: a session is restricted, and what it may do changes in the view', async () => {
    const worker = await gateway.session({ name: 'worker', workspaceId: 'garden', permissions: ['notes:write'] });
    await show(worker);
    const permission = card('Permissions').getByRole('listitem').filter({ hasText: 'notes:write' });
    expect(await permission.textContent()).toContain('takes it away for good');
    await button('Restrict…').click();
    expect(await button('Restrict worker', dialog()).isDisabled()).toBe(true);
    await dialog().getByLabel('Trust level').selectOption('sandboxed');
    await dialog().getByLabel('notes:write').uncheck();
    await dialog().getByLabel('everything', { exact: true }).uncheck();
    await dialog().getByLabel('Time without a call').fill('61');
    await dialog().getByLabel('Unit of the time').selectOption('minutes');
    await dialog()
      .getByLabel(/^Type /)
      .fill('worker');
    expect(await button('Restrict worker', dialog()).isDisabled()).toBe(true);
    await dialog().getByLabel('Time without a call').fill('5');
    await confirm('worker', 'Restrict worker');
    await page.getByText('The session is restricted.').waitFor();
    await page.locator('.view-aside').getByText('sandboxed').waitFor();
    await permission.getByText('not held').waitFor();
    const left = 'trust sandboxed, idle limit 5 min, servers notes broken, permissions none';
    await card('Timeline').getByText(`Session worker was restricted, and has now: ${left}`).waitFor();
    expect(await permission.textContent()).toContain('Open a new session');
    const everything = card('Servers').getByRole('listitem').filter({ hasText: 'everything' });
    expect(await everything.textContent()).toContain('hidden');
    const { trustLevel, permissions, servers, ttlSeconds } = await read(worker);
    expect([trustLevel, permissions, servers, ttlSeconds]).toEqual(['sandboxed', [], ['notes', 'broken'], 300]);
  });

  test('U1: a session is ended: the dialog shows progress until it is done, and then the view its end', async () => {
    const doomed = await gateway.session({ name: 'doomed', workspaceId: 'garden' });
    endedIds.push(doomed.id);
    await show(doomed);
    await button('End…').click();
    let letPass = () => {};
    const held = new Promise<void>((resolve) => {
      letPass = resolve;
    });
    // A slow network: the request reaches the gateway only later.
    await page.route(`**/api/v1/sessions/${doomed.id}`, async (route) => {
      if (route.request().method() === 'DELETE') await held;
      await route.continue();
    });
    await dialog().getByText('Changes in its own folder that are not merged are kept for review').waitFor();
    // The dialog begins in the field for the confirmation. Only the name makes Enter run the action.
    for (const part of ['doo', 'med']) {
      expect(await button('End doomed', dialog()).isDisabled()).toBe(true);
      await page.keyboard.type(part);
      await page.keyboard.press('Enter');
    }
    await dialog().locator('button[aria-busy=true]', { hasText: 'End doomed' }).waitFor();
    expect((await read(doomed)).trustLevel).toBe('direct');
    letPass();
    await page.locator('.view-aside').getByText('ended', { exact: true }).waitFor();
    expect(await dialog().count()).toBe(0);
    expect(await button('End…').count()).toBe(0);
    await card('Timeline').getByText('The session was ended').first().waitFor();
    await expect(read(doomed)).rejects.toThrow('404');
    await page.unroute(`**/api/v1/sessions/${doomed.id}`);
  });

  test('U1: the bar of a child session ends with the child', async () => {
    const oak = await gateway.session({ name: 'oak' });
    const acorn = await gateway.session({ name: 'acorn', parentId: oak.id });
    await tab.visit(`/sessions/${oak.id}?only=open`);
    await bar('Child sessions', /acorn was opened/).waitFor();
    await control(gateway, 'DELETE', `/api/v1/sessions/${acorn.id}`);
    endedIds.push(acorn.id);
    await bar('Child sessions', /acorn was opened/).waitFor({ state: 'detached' });
    await tab.visit(`/sessions/${oak.id}?only=`);
    await bar('Child sessions', /acorn was opened/).waitFor();
    // In a span that begins later, those that were opened before it and live are there.
    await gateway.session({ name: 'chestnut', parentId: oak.id });
    const later = Date.now();
    await tab.visit(`/sessions/${oak.id}?from=${later}&to=${later + 60_000}`);
    await bar('Child sessions', /chestnut was opened/).waitFor();
    expect(await bar('Child sessions', /acorn was opened/).count()).toBe(0);
  });

  test('U1: changes are merged after a look at them, and the folder of an ended session is discarded', async () => {
    const { lead, ended } = gateway.sessions;
    await show(lead);
    const changes = card('Changes in its folder');
    expect(await changes.getByRole('region', { name: 'Changes' }).textContent()).toMatch(
      /-Water the beans\.\+Water the roses\./,
    );
    // A change that the agent makes while somebody looks is shown before it is merged.
    await button('Pause').click();
    const tools = `A spade.\n${' '.repeat(2500)}A rake.\n`;
    await gateway.call(lead, 'session_edit_file', { path: 'tools.md', content: tools });
    await button('Resume').click();
    await changes.getByText('+A spade.').waitFor();
    await button('Show all 2,508 characters', changes).click();
    await changes.getByText('A rake.').waitFor();
    await page.locator('.item-list').getByRole('button', { name: 'session_edit_file wrote tools.md' }).click();
    await dialog().getByText('+A spade.').waitFor();
    expect(await readOpened()).not.toContain('roses');
    // A change that nobody has seen is not merged: the dialog closes, and the change is shown.
    await button('Merge into the workspace…').click();
    await dialog().getByText('plan.md').waitFor();
    // The end of a long line cannot be merged unnoticed.
    await dialog().getByText('The page has not shown all of these changes.').waitFor();
    await gateway.call(lead, 'session_edit_file', { path: 'seeds.md', content: 'Weeds.\n' });
    await confirm('lead', 'Merge the changes of lead');
    await changes.getByText('The session has changed files since you looked').waitFor();
    await changes.getByText('+Weeds.').waitFor();
    await dialog().waitFor({ state: 'detached' });
    expect(withoutLateReads(tab.problems.splice(0), endedIds)).toEqual([expect.stringContaining('409 (Conflict)')]);
    await expect(access(join(gateway.files, 'garden/seeds.md'))).rejects.toThrow('ENOENT');
    await button('Merge into the workspace…').click();
    await dialog().getByText('seeds.md').waitFor();
    expect(await changes.getByText('The session has changed files since you looked').count()).toBe(0);
    await confirm('lead', 'Merge the changes of lead');
    await changes.getByText('3 files merged into workspace garden.').waitFor();
    await changes.getByText('There are no changes that are not merged yet.').waitFor();
    expect(await readFile(join(gateway.files, 'garden/plan.md'), 'utf8')).toBe('# Plan\n\nWater the roses.\n');
    expect(await readFile(join(gateway.files, 'garden/tools.md'), 'utf8')).toBe(tools);

    const listFolders = async () =>
      (await control<WorkspaceDetails>(gateway, 'GET', '/api/v1/workspaces/garden')).folders;
    const kept = (await listFolders()).find(({ sessionId }) => sessionId === ended.id);
    expect(kept).toMatchObject({ kept: true });
    const folder = join(gateway.dataDir, 'folders', ended.id);
    await access(folder);
    await show(ended);
    await card('Changes in its folder').getByText('+An old plan.').waitFor();
    await button('Discard the folder…').click();
    await confirm('yesterday', 'Discard the folder of session yesterday');
    await page.getByText('The folder was discarded.').waitFor();
    expect((await listFolders()).map(({ sessionId }) => sessionId)).not.toContain(ended.id);
    await expect(access(folder)).rejects.toThrow('ENOENT');
  });

  test('U2: kept folders are looked at, merged and discarded in the view of workspaces', async () => {
    /** A session that has left a changed folder behind. */
    const leave = async (name: string) => {
      const session = await gateway.session({ name, userId: 'ada', workspaceId: 'garden' });
      await gateway.call(session, 'session_edit_file', { path: `${name}.md`, content: `By ${name}.\n` });
      await control(gateway, 'DELETE', `/api/v1/sessions/${session.id}`);
      endedIds.push(session.id);
      return session.id;
    };
    const [weeder, mower] = [await leave('weeder'), await leave('mower')];
    await tab.visit('/workspaces');
    const changes = card('Changes in its folder');
    const main = page.locator('main');
    await button('Show changes of weeder').click();
    await changes.getByText('+By weeder.').waitFor();
    expect(new URL(page.url()).hash).toBe(`#/workspaces?folder=garden%2F${weeder}`);
    await button('Show changes of mower').click();
    await changes.getByText('+By mower.').waitFor();
    expect(await changes.getByText('By weeder.').count()).toBe(0);
    await button('Discard the folder…').click();
    await confirm('mower', 'Discard the folder of session mower');
    await main.getByText('The folder was discarded.').waitFor();
    await button('Hide changes of mower').waitFor({ state: 'detached' });
    await expect(access(join(gateway.dataDir, 'folders', mower))).rejects.toThrow('ENOENT');

    await button('Show changes of weeder').click();
    await button('Merge into the workspace…').click();
    await dialog().getByText('weeder.md').waitFor();
    await confirm('weeder', 'Merge the changes of weeder');
    await main.getByText('1 file merged into workspace garden.').waitFor();
    expect(await readFile(join(gateway.files, 'garden/weeder.md'), 'utf8')).toBe('By weeder.\n');
    await expect(access(join(gateway.files, 'garden/mower.md'))).rejects.toThrow('ENOENT');
    await changes.getByText('There are no changes that are not merged yet.').waitFor();
    await button('Discard the folder…', changes).waitFor();
    await button('Hide changes of weeder').click();
    await changes.waitFor({ state: 'detached' });
    expect(new URL(page.url()).hash).toBe('#/workspaces');
  });

  test('U1: each bar of the timeline is wide enough to be hit, and opens what is known about it', async () => {
    await show(gateway.sessions.lead);
    await bar('Processes', /broken/)
      .first()
      .waitFor();
    const widths = await page.evaluate(() =>
      [...document.querySelectorAll('.lane-bar')].map((each) => each.getBoundingClientRect().width),
    );
    expect(widths.length).toBeGreaterThan(12);
    expect(Math.min(...widths)).toBeGreaterThanOrEqual(6);

    await bar('Calls', /Tool echo of server everything was called/).click();
    const call = await readOpened();
    expect(call).toMatch(/Outcome\s*ok\s*Rule\s*default: no rule denied the callClaims/);
    expect(call).toMatch(/Arguments \(SHA-256\)\s*[0-9a-f]{64}Duration/);
    expect(call).toMatch(/Time at the server\s*[\d.]+ m?s; Ambit itself took/);
    expect(call).toMatch(/Size of the result\s*\d+ B/);

    // A bar stays the same one, with the focus, when more happens.
    const refused = await bar('Refusals', /no-secrets/).elementHandle();
    await button('Pause').click();
    await gateway.call(gateway.sessions.lead, 'session_state_get', { key: 'step' });
    await button('Resume').click();
    await bar('Calls', /session_state_get/).waitFor();
    await refused?.press('Enter');
    await dialog().getByText("args.message.contains('password')").waitFor();
    const refusal = await readOpened();
    // The process has started before this second.
    const later = Date.now();
    await tab.visit(`/sessions/${gateway.sessions.lead.id}?from=${later}&to=${later + 1000}`);
    await bar('Processes', /everything/).waitFor();
    await show(gateway.sessions.lead);
    expect(refusal).toMatch(
      /Outcome\s*PERMISSION_DENIED\s*Rule\s*no-secrets, which now applies if .*Claims\s*session\.userId = ada/,
    );

    await bar('Processes', /broken/)
      .first()
      .click();
    const process = await readOpened();
    expect(process).toMatch(/started without a sandbox after/);
    expect(process).toMatch(/ended with code 3/);
    expect(process).toMatch(/Last lines on stderr\s*The database cannot be opened\./);

    await bar('Messages', /The session sent a message/).click();
    expect(await readOpened()).toMatch(/Recipient/);
    await bar('Files', /session_edit_file wrote plan\.md/).click();
    expect(await readOpened()).toMatch(/Path in the workspace\s*plan\.md\s*Decision\s*allowed/);
    await bar('Child sessions', /beds was opened/).click();
    await dialog().getByRole('link', { name: 'Child session' }).click();
    await page.getByRole('heading', { level: 1, name: 'beds' }).waitFor();
    await bar('Messages', /Session lead sent a message to this session/).waitFor();
  });

  test.runIf(hasBwrap())('U1: a process in a sandbox shows its memory, and what enforces each limit', async () => {
    const { sandboxed } = gateway.sessions;
    await gateway.call(sandboxed, 'notes__add_note', { text: 'Buy seeds.' });
    await show(sandboxed);
    await page
      .getByRole('list', { name: 'Processes' })
      .getByRole('button', { name: /notes started in a sandbox \(bwrap\)/ })
      .click();
    await dialog().getByText('Memory now').waitFor();
    expect(await readOpened()).toMatch(/Memory now\s*[\d.]+ MiB\s*Limits\s*Memory 512 MiB \([a-z]/);
    expect(await card('Processes').textContent()).toMatch(/Memory\s*[\d.]+ MiB of 512 MiB/);
  });

  test('U1: the context names the source of each value, and the reason of everything that is hidden', async () => {
    const { lead } = gateway.sessions;
    await gateway.call(lead, 'session_state_set', { key: 'next', value: 3 });
    await show(lead);
    await card('State keys').getByText('next').waitFor();
    const item = (title: string, name: string) =>
      card(title).getByRole('listitem').filter({ hasText: name }).first().textContent();
    expect(await item('Context', 'Task')).toMatch(/^From control API.*Plan the beds for spring/);
    expect(await item('Context', 'Folder')).toMatch(/^From Ambit: own folder of the session/);
    expect(await item('Context', 'Idle limit')).toMatch(/^From configuration: sessions\.ttlSeconds.*1 h/);
    expect(await item('Servers', 'everything')).toMatch(/available\s*Tools: denies get-env; rules: no-secrets/);
    expect(await item('Servers', 'shelf')).toMatch(/hidden\s*approval\s*it has not been approved/);
    expect(await item('Permissions', 'notes:read')).toMatch(/held\s*"ambit session restrict/);
    expect(await item('Permissions', 'notes:write')).toMatch(/not held\s*needed by notes__write_note\s*Open a new/);
    const { block } = await control<{ block: string }>(gateway, 'GET', `/api/v1/sessions/${lead.id}/policies`);
    expect(await card('Policies').locator('pre').textContent()).toBe(block);
    expect(await card('Policies').textContent()).toMatch(/Delivered/);
    expect(withoutLateReads(tab.problems, endedIds)).toEqual([]);
  });
});
