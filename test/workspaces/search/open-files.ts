import { afterAll, beforeAll, onTestFinished } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { type ConfiguredPaths, createPathRules } from '../../../src/workspaces/path-guard.ts';
import { createRipgrep, type Ripgrep } from '../../../src/workspaces/search/ripgrep.ts';
import type { SessionFiles } from '../../../src/workspaces/session-files.ts';
import { createSandboxHarness, type SandboxHarness } from '../../sandbox/bwrap/sandbox-harness.ts';

let count = 0;

/** The files of a backend, without records and limits. */
export function toSessionFiles<B extends WorkspaceBackend>(backend: B): SessionFiles & B {
  const place = {
    key: `test ${++count}`,
    folder: undefined,
    inBackground: <T>(work: (files: B) => Promise<T>) => work(backend),
  };
  return { ...backend, fileBytes: 1 << 20, runExclusive: (_, work) => work(), place: place as SessionFiles['place'] };
}

/** The files of a folder as a tool gets them, for one test. */
export function openFiles(folder: string, ripgrep?: Ripgrep, paths: Partial<ConfiguredPaths> = {}): SessionFiles {
  const rules = createPathRules({ hide: [], keep: [], open: [], ...paths });
  const backend = openLocal(folder, { rules, sweep: false, ripgrep });
  onTestFinished(() => backend.close());
  return toSessionFiles(backend);
}

export interface SandboxedRipgrep extends Ripgrep {
  readonly harness: SandboxHarness;
  /** How often it told, and how often it could not. */
  readonly answers: { names: number; nothing: number };
}

/** ripgrep in a real sandbox, for all tests of a file; a slow machine has all the time a test has. */
export function createSandboxedRipgrep(): SandboxedRipgrep {
  let harness: SandboxHarness;
  let ripgrep: Ripgrep;
  const answers = { names: 0, nothing: 0 };
  beforeAll(async () => {
    harness = await createSandboxHarness();
    const { runner, root } = harness;
    ripgrep = createRipgrep({ sandboxes: [runner], tmpRoot: root, limitMs: 60_000 });
  });
  afterAll(() => harness.stop());
  return {
    get harness() {
      return harness;
    },
    answers,
    async candidates(folder, query) {
      const names = await ripgrep.candidates(folder, query);
      answers[names === undefined ? 'nothing' : 'names']++;
      return names;
    },
  };
}
