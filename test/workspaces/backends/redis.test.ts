import { afterAll, beforeAll, describe } from 'vitest';
import { openRedisStore } from '../../../src/stores/redis/redis-store.ts';
import { openDatabase } from '../../../src/workspaces/backends/database/open-database.ts';
import { findRedis, type RedisServer, startRedis } from '../../stores/redis-server.ts';
import { describeWorkspaceBackend } from './backend-suite.ts';
import { noRules } from './suite/suite-workspace.ts';

const program = findRedis();

describe.skipIf(program === undefined)('files in Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis(program as string);
  });
  afterAll(() => server.remove());

  describeWorkspaceBackend(
    'kept by Redis',
    async () => {
      // As another gateway would, one of the two does not know of the other.
      const stores = [await openRedisStore({ url: server.url }), await openRedisStore({ url: server.url })] as const;
      let opened = 0;
      return {
        open: async ({ rules = noRules, ...options } = {}) =>
          openDatabase(stores[opened++ % 2 === 0 ? 0 : 1].documents, 'ws', { rules, ...options }),
        remove: async () => void (await Promise.all(stores.map((store) => store.close()))),
      };
    },
    { links: false },
  );
});
