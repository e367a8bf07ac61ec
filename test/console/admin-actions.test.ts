import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { callModern, readOutcome } from '../journeys/json-mcp-client.ts';
import { hasChromium, openBrowser } from './browser.ts';
import { type BusyGateway, startBusyGateway } from './busy-gateway.ts';
import { type Hands, useHands } from './hands.ts';
import { control, type OpenConsole, openConsole } from './open-console.ts';

interface Objectives {
  readonly objectives: readonly { readonly id: string; readonly text: string }[];
}

describe.runIf(hasChromium())('people and policies in the console', () => {
  let browser: Browser;
  let gateway: BusyGateway;
  let ui: OpenConsole;
  let hands: Hands;
  beforeAll(async () => {
    [browser, gateway] = await Promise.all([openBrowser(), startBusyGateway()]);
    ui = await openConsole(browser, gateway);
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

  test('U2: adds a user with a key, whose secret is shown once and works until the key is revoked', async () => {
    const { main, dialog, row, press, confirm, findInTab } = hands;
    await ui.visit('/people');
    await press(main, 'Add user');
    await dialog.getByLabel('Name').fill('joan');
    await dialog.getByRole('button', { name: 'web', exact: true }).click();
    await confirm('Add user');
    await main.getByText('joan was added. The user is in web.').waitFor();
    expect(await ask('GET', '/api/v1/users/joan')).toMatchObject({ name: 'joan', teams: ['web'] });

    await press(main, 'Create key for joan');
    await dialog.getByLabel('Trust ceiling').selectOption('sandboxed');
    await press(dialog, 'Create key');
    const field = dialog.getByLabel('API key');
    const secret = await field.inputValue();
    expect(secret.length).toBeGreaterThan(32);
    expect(await findInTab(secret)).toEqual(['fields']);
    await press(dialog, 'I have stored the key');
    await main.getByText(/^The key \w{8} of joan is created: sandboxed/).waitFor();
    expect(await findInTab(secret)).toEqual([]);
    await ui.page.reload();
    await main.getByRole('link', { name: 'Keys of joan: 1 active' }).waitFor();
    expect(await findInTab(secret)).toEqual([]);

    const callWithKey = async (key: string) => readOutcome(await callModern(`${gateway.url}/mcp`, key, 'session_info'));
    expect(await callWithKey(secret)).toContain('joan');
    await ui.visit('/people?tab=keys&user=joan');
    const { keys } = await ask<{ keys: { id: string }[] }>('GET', '/api/v1/keys?user=joan');
    const short = String(keys[0]?.id.slice(0, 8));
    await press(row(short), `Rotate key ${short} of joan`);
    await press(dialog, `Rotate key ${short}`);
    const rotated = await dialog.getByLabel('API key').inputValue();
    expect(rotated).not.toBe(secret);
    await press(dialog, 'I have stored the key');
    await main.getByText(`The key ${short} of joan has a new secret.`).waitFor();
    expect(await findInTab(rotated)).toEqual([]);
    expect([await callWithKey(secret), await callWithKey(rotated)]).toEqual([
      '!UNAUTHENTICATED',
      expect.stringContaining('joan'),
    ]);
    await press(row(short), `Revoke key ${short} of joan`);
    await confirm(`Revoke key ${short}`, short);
    await main.getByText(`The key ${short} of joan is revoked. 1 session ended.`).waitFor();
    await row(short).getByText('revoked').first().waitFor();
    expect(await callWithKey(rotated)).toBe('!UNAUTHENTICATED');

    await ui.visit('/people?tab=users');
    await press(main, 'Change teams of joan');
    await dialog.getByLabel('Teams', { exact: true }).fill('core, web');
    await confirm('Save teams of joan');
    await main.getByText('joan is now in core, web.').waitFor();
    expect(await ask('GET', '/api/v1/users/joan')).toMatchObject({ teams: ['core', 'web'] });
    await press(main, 'Remove user joan');
    await confirm('Remove user joan', 'joan');
    await main.getByText('The user joan is removed.').waitFor();
    await expect(ask('GET', '/api/v1/users/joan')).rejects.toThrow('404');
  });

  test('U2: sees a new key also after closing the dialog while the key was made', async () => {
    const { main, dialog, press } = hands;
    await ui.visit('/people?tab=keys');
    await press(main, 'Create key');
    await dialog.getByLabel('User').fill('ada');
    await ui.page.route('**/api/v1/keys', async (route) => {
      if (route.request().method() === 'POST') await ui.page.keyboard.press('Escape');
      await route.continue();
    });
    await press(dialog, 'Create key');
    expect(await dialog.getByLabel('API key').inputValue()).toMatch(/^ambk_/);
    await ui.page.unroute('**/api/v1/keys');
    // The second Esc in a row would close a dialog without asking.
    for (const _ of [1, 2, 3]) await ui.page.keyboard.press('Escape');
    await dialog.getByText('Copy the key first.').waitFor();
    expect(await dialog.getByRole('button', { name: 'Close' }).count()).toBe(0);
    await dialog.getByRole('button', { name: 'Copy key' }).and(ui.page.locator(':focus')).waitFor();
    await dialog.getByLabel('API key').focus();
    await ui.page.keyboard.press('Control+c');
    await press(dialog, 'Close');
    await dialog.waitFor({ state: 'detached' });
    await main.getByText(/^The key \w{8} of ada is created/).waitFor();
    await press(main, 'Close this notice');
    expect(await main.getByText(/of ada is created/).count()).toBe(0);
  });

  test('U2: stores a credential whose value nobody sees again, replaces it and removes it', async () => {
    const { main, dialog, row, press, confirm, findInTab } = hands;
    await ui.visit('/people?tab=credentials');
    await press(main, 'Set credential');
    await dialog.getByLabel('User').fill('ada');
    await dialog.getByLabel('Server').fill('notes');
    await dialog.getByLabel('Environment variable').fill('NOTES_TOKEN');
    await dialog.getByLabel('Value').fill('first-planted-value');
    await confirm('Store credential');
    await main.getByText('The credential of ada for notes is stored.').waitFor();
    await row('ada').getByText('usable').waitFor();
    await press(row('ada'), 'Replace NOTES_TOKEN of ada for notes');
    expect(await dialog.getByLabel('Value').inputValue()).toBe('');
    await dialog.getByLabel('Value').fill('second-planted-value');
    await confirm('Store credential');
    for (const value of ['first-planted-value', 'second-planted-value']) {
      expect(await findInTab(value)).toEqual([]);
    }
    expect(await ask('GET', '/api/v1/credentials')).toMatchObject({
      credentials: [{ env: 'NOTES_TOKEN', usable: true }],
    });
    await press(row('ada'), 'Remove NOTES_TOKEN of ada for notes');
    await confirm('Remove credential', 'NOTES_TOKEN');
    await main.getByText('There are no credentials yet.').waitFor();
    expect(await ask('GET', '/api/v1/credentials')).toEqual({ credentials: [] });
  });

  test('G9: edits policies and objectives in the page, with a command and over the API; the preview is what a session gets', async () => {
    const { main, dialog, row, press, confirm } = hands;
    await ui.visit('/policies');
    await press(main, 'Add policy');
    await dialog.getByLabel('Scope', { exact: true }).selectOption('workspace');
    await dialog.getByLabel('Workspace', { exact: true }).fill('garden');
    await dialog.getByLabel('Name').fill('water');
    await dialog.getByLabel('Text', { exact: true }).fill('Water the beds in the morning.');
    await dialog.getByLabel('Preview for user').fill('ada');
    await dialog.getByText('This policy:').waitFor();
    await dialog.locator('mark').getByText('Water the beds in the morning.').waitFor();
    const drafted = await dialog.getByRole('region', { name: 'Text for the model' }).textContent();
    for (const _ of [1, 2, 3]) {
      await ui.page.keyboard.press('Escape');
      await dialog.getByText('What you have entered is not saved.').waitFor();
      await press(dialog, 'Continue editing');
    }
    await confirm('Save policy');
    await main.getByText('The policy water of Workspace garden is saved.').waitFor();
    expect(drafted).toBe(await deliver('ada'));

    await ui.visit('/policies?tab=objectives');
    await press(main, 'Add objective');
    await dialog.getByLabel('Scope', { exact: true }).selectOption('team');
    await dialog.getByLabel('Team', { exact: true }).fill('web');
    await dialog.getByLabel('Text', { exact: true }).fill('Harvest before the frost.');
    await confirm('Add objective');
    await main.getByText('Harvest before the frost.').first().waitFor();

    await main.getByRole('link', { name: 'Preview' }).click();
    await main.getByText('Choose a user.').waitFor();
    /** The text of the preview, once it is about a user with these teams. */
    const preview = async (user: string, workspace: string, teams: string) => {
      await main.getByRole('combobox', { name: 'User' }).fill(user);
      await main.getByRole('combobox', { name: 'Workspace' }).fill(workspace);
      await main.getByText(teams).waitFor();
      await ui.page.waitForURL(new RegExp(`user=${user}${workspace === '' ? '' : `&workspace=${workspace}`}$`));
      return (await main.getByRole('region', { name: 'Text for the model' }).textContent()) ?? '';
    };
    expect(await preview('ada', 'garden', 'first one counts most: web.')).toBe(await deliver('ada'));
    const other = await preview('grace', 'garden', 'The user is in no team.');
    expect(other).toBe(await deliver('grace'));
    expect(other).toContain('Water the beds in the morning.');
    expect(other).not.toMatch(/must include tests|before the frost/);

    await ui.visit('/policies?tab=policies');
    await press(main, 'Edit policy water of Workspace garden');
    await dialog.getByLabel('Text', { exact: true }).fill('Water the beds at noon.');
    await dialog.getByText('What the model would get with this draft').waitFor();
    await confirm('Save policy');
    await row('0 water').getByText('Water the beds at noon.').waitFor();
    await gateway.cli('policy', 'add', 'Water the beds at night.', '--scope', 'workspace:garden', '--name', 'water');
    const { objectives } = await ask<Objectives>('GET', '/api/v1/objectives');
    const { id = '' } = objectives.find(({ text }) => text.startsWith('Harvest')) ?? {};
    await ask('DELETE', '/api/v1/objectives', { id });

    await ui.page.reload();
    await row('0 water').getByText('Water the beds at night.').waitFor();
    await press(main, 'Disable policy water of Workspace garden');
    await confirm('Disable policy water');
    await main.getByText('The policy water of Workspace garden is disabled.').waitFor();
    await row('0 water').getByText('disabled', { exact: true }).waitFor();
    expect(await deliver('grace')).not.toContain('Water the beds');
    await press(main, 'Enable policy water of Workspace garden');
    await confirm('Enable policy water');
    await main.getByText('The policy water of Workspace garden is enabled.').waitFor();
    await row('0 water').getByText('disabled', { exact: true }).waitFor({ state: 'detached' });
    expect(await deliver('grace')).toContain('Water the beds at night.');
    await press(main, 'Remove policy water of Workspace garden');
    await confirm('Remove policy water', 'water');
    await row('0 water').waitFor({ state: 'detached' });
    expect(await ask('GET', '/api/v1/policies')).toMatchObject({ policies: [{ name: 'require-tests' }] });
    await main.getByRole('link', { name: 'Objectives' }).click();
    await main.getByText('Reduce deployment time').waitFor();
    expect(await main.getByText('Harvest before the frost.').count()).toBe(0);

    await ask('POST', '/api/v1/objectives', { scope: 'org', text: 'Compost all leaves.' });
    await ui.page.reload();
    const compost = row('0 Compost all leaves.');
    await compost.getByRole('button', { name: 'Remove objective' }).click();
    const { objectives: kept } = await ask<Objectives>('GET', '/api/v1/objectives');
    const leaves = kept.find(({ text }) => text === 'Compost all leaves.')?.id as string;
    await confirm(`Remove objective ${leaves}`, leaves);
    await main.getByText(`The objective ${leaves} is removed.`).waitFor();
    await compost.waitFor({ state: 'detached' });
    expect(await ask('GET', '/api/v1/objectives')).toMatchObject({
      objectives: [{ text: 'Reduce deployment time to under 5 minutes' }],
    });
  });

  /** The policies that a new session of the user is given with its first result. */
  async function deliver(userId: string): Promise<string> {
    const session = await gateway.session({ userId, workspaceId: 'garden' });
    const { messages } = await callModern(`${gateway.url}/mcp`, session.token, 'session_info');
    return messages.at(-1)?.result?.content?.[0]?.text ?? '';
  }
});
