import type { Locator } from 'playwright-core';
import type { OpenConsole } from './open-console.ts';

/** What a reader finds and does in every view. */
export interface Hands {
  readonly main: Locator;
  readonly dialog: Locator;
  /** The row of a table that begins with this text. */
  row(name: string): Locator;
  press(where: Locator, button: string): Promise<void>;
  /** Presses the button that does the work of the open dialog, and waits until it is done. */
  confirm(button: string, typed?: string): Promise<void>;
  /** Names the places of the tab that contain a text. */
  findInTab(text: string): Promise<string[]>;
}

export function useHands({ page }: Pick<OpenConsole, 'page'>): Hands {
  const [main, dialog] = [page.locator('main'), page.getByRole('dialog')];
  const press = (where: Locator, button: string) => where.getByRole('button', { name: button, exact: true }).click();
  return {
    main,
    dialog,
    press,
    row: (name) => main.getByRole('row', { name: new RegExp(`^${name}`) }),
    async confirm(button, typed) {
      if (typed !== undefined) await dialog.getByLabel(/^Type .* to confirm$/).fill(typed);
      await press(dialog, button);
      await dialog.waitFor({ state: 'detached' });
    },
    async findInTab(text) {
      const places = await page.evaluate(() => ({
        document: document.documentElement.outerHTML,
        fields: [...document.querySelectorAll('input, textarea')]
          .map((each) => (each as HTMLInputElement).value)
          .join(),
        sessionStorage: JSON.stringify({ ...sessionStorage }),
        localStorage: JSON.stringify({ ...localStorage }),
        state: JSON.stringify(history.state),
        cookies: document.cookie,
      }));
      const protocol = await page.context().newCDPSession(page);
      const visited = JSON.stringify(await protocol.send('Page.getNavigationHistory'));
      await protocol.detach();
      return Object.entries({ ...places, visited }).flatMap(([name, held]) => (held.includes(text) ? [name] : []));
    },
  };
}
