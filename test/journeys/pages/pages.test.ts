import { afterAll, describe, expect, test } from 'vitest';
import { startCommandServer } from './command-server.ts';
import { leftOut } from './left-out.ts';
import { listPages } from './list-pages.ts';
import { canRunPage, startPageServices } from './page-services.ts';
import { readPage } from './read-page.ts';
import { runPage } from './run-page.ts';
import { createScene, endBackgroundGateways, linkCheckout } from './scene.ts';
import { writeShellFunctions } from './shell-functions.ts';

const commands = await startCommandServer();
afterAll(() => commands.close());

describe.concurrent('a newcomer with an empty home folder', () => {
  test.for(listPages().filter(canRunPage))('follows %s', async (path) => {
    const scene = createScene();
    const services = await startPageServices(path);
    try {
      linkCheckout(scene);
      await runPage(path, { ...scene, functions: writeShellFunctions(commands), services });
    } finally {
      await services.close();
      endBackgroundGateways(scene);
      scene.remove();
    }
  });
});

test('every block that is left out is on its page, once', () => {
  for (const { page, words } of leftOut) {
    const found = readPage(page).filter(({ text }) => text.includes(words));
    expect(found, `${page}: ${words}`).toHaveLength(1);
  }
});
