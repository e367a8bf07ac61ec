import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { repository } from '../start-ambit.ts';
import { listPages } from './list-pages.ts';
import { canRunPage, startPageServices } from './page-services.ts';
import { runPage } from './run-page.ts';
import { createScene } from './scene.ts';

/** The pages use the port that they show. */
async function takePort(port: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1');
  await once(server, 'listening');
  server.close();
  await once(server, 'close');
}

// Downloads every package and builds, which takes minutes.
test.runIf(proof)('a newcomer clones the repository, installs it and follows every page in order', async () => {
  await expect(takePort(7420), 'Stop the gateway at port 7420: the pages need this port.').resolves.toBeUndefined();
  const { home, env, remove } = createScene();
  const prefix = join(home, '.npm-global');
  const newcomer = {
    ...env,
    PATH: `${join(prefix, 'bin')}:${env.PATH}`,
    npm_config_prefix: prefix,
    // npm tells of a new version of itself now and then.
    npm_config_update_notifier: 'false',
    // The repository that the pages clone is this one.
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: `url.${repository}.insteadOf`,
    GIT_CONFIG_VALUE_0: 'https://github.com/ambit-mcp/ambit',
  };
  try {
    for (const path of listPages().filter(canRunPage)) {
      const services = await startPageServices(path);
      try {
        await runPage(path, { home, env: newcomer, functions: '', services });
      } finally {
        await services.close();
      }
    }
  } finally {
    remove();
  }
});
