import { defineConfig } from 'vitest/config';

/**
 * Loading what a file needs costs more than most of the tests in these rooms: their files share processes, one after the
 * other, and so leave nothing behind there.
 */
const rooms = [
  'admin',
  'approvals',
  'cache',
  'cli',
  'config',
  'context',
  'credentials',
  'doctor',
  'entrances',
  'events',
  'gateway',
  'house',
  'identity',
  'import',
  'journal',
  'library',
  'logging',
  'metrics',
  'sdk',
  'server',
  'session-tools',
  'sessions',
  'stores',
  'telemetry',
  'text',
  'trust',
  'upstreams',
  'wire',
  'workspaces',
].join();
const together = `test/{${rooms}}/**/*.test.ts`;
const outside = ['**/node_modules/**', 'test/tools/**'];
const shared = { setupFiles: ['test/fixed-seed.ts'], testTimeout: 60_000, hookTimeout: 90_000, pool: 'forks' } as const;

export default defineConfig({
  test: {
    globalSetup: ['test/install-what-is-missing.ts'],
    maxWorkers: 4,
    projects: [
      { test: { ...shared, name: 'together', include: [together], exclude: outside, isolate: false } },
      { test: { ...shared, name: 'apart', include: ['test/**/*.test.ts'], exclude: [...outside, together] } },
    ],
  },
});
