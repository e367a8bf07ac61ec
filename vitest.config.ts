import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['**/node_modules/**', 'test/tools/**'],
    globalSetup: ['test/install-what-is-missing.ts'],
    setupFiles: ['test/fixed-seed.ts'],
    testTimeout: 60_000,
    hookTimeout: 90_000,
    pool: 'forks',
    maxWorkers: 4,
  },
});
