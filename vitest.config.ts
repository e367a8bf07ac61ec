import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

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
/** What takes longest begins first; else the last half minute belongs to one of them alone. */
const longest = [
  'journeys/cells/cells',
  'journeys/clients/inspector',
  'journeys/conformance/through-all',
  'workspaces/killed-edits',
  'runners/container/ends',
  'journeys/hostile/upstream-silence',
  'journeys/files/race',
  'house/package',
  'runners/container/greedy',
  'journeys/abandoned/silent',
  'workspaces/container/life',
].map((name) => `/test/${name}.test.ts`);

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((name) => moduleId.endsWith(name));
      return at === -1 ? longest.length : at;
    };
    return (await super.sort(files)).sort((one, other) => place(one) - place(other));
  }
}

const outside = ['**/node_modules/**', 'test/tools/**'];
const shared = {
  setupFiles: ['test/fixed-seed.ts', 'test/clean-environment.ts'],
  testTimeout: 60_000,
  hookTimeout: 90_000,
  pool: 'forks',
} as const;

export default defineConfig({
  test: {
    globalSetup: ['test/global-setup.ts'],
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
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
