import { defineConfig } from 'vitest/config';

/**
 * Loading what a file needs costs more than most of its tests: files share processes, one after the other, and so leave
 * nothing behind there. Those that count every descriptor of their process have one to themselves.
 */
const apart = [
  'test/saferoot/**/*.test.ts',
  'test/workspaces/{kept-open,local-only}.test.ts',
  'test/workspaces/isolation/merge-attacks.test.ts',
  'test/journeys/sandbox/churned-sessions.test.ts',
  'test/runners/bwrap/ends.test.ts',
];
const outside = ['**/node_modules/**', 'test/tools/**'];
const shared = {
  setupFiles: ['test/fixed-seed.ts', 'test/clean-environment.ts'],
  testTimeout: 60_000,
  hookTimeout: 90_000,
  pool: 'forks',
} as const;

export default defineConfig({
  test: {
    globalSetup: ['test/install-what-is-missing.ts'],
    maxWorkers: 4,
    projects: [
      {
        test: {
          ...shared,
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...outside, ...apart],
          isolate: false,
        },
      },
      { test: { ...shared, name: 'apart', include: apart, exclude: outside } },
    ],
  },
});
