import { defineConfig } from 'vitest/config';

const journeys = 'test/journeys/**/*.test.ts';
const outside = ['**/node_modules/**', 'test/tools/**'];
const shared = { setupFiles: ['test/fixed-seed.ts'], testTimeout: 60_000, hookTimeout: 90_000, pool: 'forks' } as const;

export default defineConfig({
  test: {
    globalSetup: ['test/install-what-is-missing.ts'],
    maxWorkers: 4,
    projects: [
      // Loading what a file needs costs more than most of the tests in it: these share processes, one after the other, and
      // so leave nothing behind there.
      {
        test: {
          ...shared,
          name: 'rooms',
          include: ['test/**/*.test.ts'],
          exclude: [...outside, journeys],
          isolate: false,
        },
      },
      { test: { ...shared, name: 'journeys', include: [journeys], exclude: outside } },
    ],
  },
});
