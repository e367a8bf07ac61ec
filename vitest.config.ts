import { createHash } from 'node:crypto';
import { dirname, join, relative, resolve } from 'node:path';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { proof } from './test/proof.ts';
import { seed } from './test/random-seed.ts';

/**
 * Loading what a file needs costs more than most of its tests: files share processes, one after the other, and so leave
 * nothing behind there. Those that count every descriptor of their process have one to themselves.
 */
const apart = [
  'test/workspaces/saferoot/**/*.test.ts',
  'test/workspaces/backends/{backend-pool,local-only}.test.ts',
  'test/workspaces/session-folders/merge-attacks.test.ts',
  'test/journeys/sandbox/churned-sessions.test.ts',
  'test/sandbox/bwrap/bwrap-lifetime.test.ts',
];
/** The longest files start first, so that none of them is still running when all others have finished. */
const longest = [
  'sandbox/container/container-lifetime',
  'journeys/cells/cells',
  'journeys/conformance/through-all',
  'workspaces/backends/container/life',
  'sandbox/bwrap/bwrap-limits',
  'journeys/hostile/clients/clients',
  'journeys/sandbox/container-session',
  'workspaces/backends/container/container',
  'journeys/files/race',
  'journeys/abandoned/silent',
].map((name) => `/test/${name}.test.ts`);

/** The longest files first, then all others in an order that the seed of the run decides: no file relies on another. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = longest.findIndex((name) => moduleId.endsWith(name));
      const shuffled = createHash('sha256')
        .update(`${seed} ${relative(import.meta.dirname, moduleId)}`)
        .digest('hex');
      return `${String(place === -1 ? longest.length : place).padStart(3, '0')} ${shuffled}`;
    };
    return files
      .map((file) => [rank(file), file] as const)
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([, file]) => file);
  }
}

const [source, built] = ['src', 'build'].map((name) => join(import.meta.dirname, name)) as [string, string];

/**
 * Tests name the files of `src/` and get what the compiler has made of them in `build/`, which the set-up keeps up to date.
 * Node loads those hundreds of files by itself, in a tenth of the time that it takes to transform each for every process.
 */
const compiled: Plugin = {
  name: 'compiled',
  enforce: 'pre',
  resolveId(name, importer) {
    if (importer === undefined || !name.endsWith('.ts')) return;
    const path = resolve(dirname(importer), name);
    if (path.startsWith(`${source}/`)) return join(built, `${relative(source, path).slice(0, -'.ts'.length)}.js`);
  },
};

const outside = ['**/node_modules/**', 'test/tools/**'];
const shared = {
  setupFiles: ['test/random-seed.ts', 'test/clean-environment.ts'],
  // Limits against hanging. No test is judged by its time, and proof counts take long.
  testTimeout: proof ? 1_800_000 : 120_000,
  hookTimeout: 120_000,
  expect: { poll: { timeout: 50_000 } },
  pool: 'forks',
  // Room for the many short-lived objects of tests: less time goes into collecting them.
  execArgv: ['--max-semi-space-size=64'],
  server: { deps: { external: [new RegExp(`^${built.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}/`)] } },
} as const;

export default defineConfig({
  test: {
    globalSetup: ['test/global-setup.ts'],
    // More than the two cores of a small machine: many tests wait for processes that they have started.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        plugins: [compiled],
        test: {
          ...shared,
          name: 'together',
          include: ['test/**/*.test.ts'],
          exclude: [...outside, ...apart],
          isolate: false,
        },
      },
      { plugins: [compiled], test: { ...shared, name: 'apart', include: apart, exclude: outside } },
    ],
  },
});
