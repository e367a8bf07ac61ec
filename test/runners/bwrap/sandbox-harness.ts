import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BwrapRunner, createBwrapRunner } from '../../../src/runners/bwrap/bwrap.ts';
import type { Confinement } from '../../../src/runners/confinement.ts';
import type { Launch } from '../../../src/runners/runner.ts';
import { createTmpRoot } from '../../../src/runners/sweep-leftovers.ts';
import { createWarden, type Warden } from '../../../src/runners/warden.ts';

export const does = join(import.meta.dirname, 'does.js');

export interface SandboxHarness {
  readonly folder: string;
  readonly root: string;
  readonly warden: Warden;
  readonly runner: BwrapRunner;
  launch(args: readonly string[], limits?: Partial<Pick<Confinement, 'memoryMb' | 'pids'>>): Launch;
  stop(): Promise<void>;
}

export async function createSandboxHarness(searchPath?: () => string | undefined): Promise<SandboxHarness> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-sandbox-')));
  const root = await createTmpRoot(join(folder, 'tmp'));
  const warden = createWarden({ tmpRoot: root });
  const timing = { closeMs: 100, termMs: 1000 };
  const runner = createBwrapRunner({
    warden,
    tmpRoot: root,
    timing,
    ...(searchPath === undefined ? {} : { searchPath }),
  });
  const home = join(folder, 'ws');
  mkdirSync(home);
  let launches = 0;
  return {
    folder,
    root,
    warden,
    runner,
    launch: (args, limits = {}) => ({
      command: process.execPath,
      args,
      env: {},
      cwd: home,
      tmpDir: join(root, `p${++launches}`),
      confinement: {
        home: { real: home, inside: home },
        readable: [],
        writable: [],
        hidden: [],
        memoryMb: 512,
        pids: 64,
        ...limits,
      },
    }),
    async stop() {
      await warden.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Every process that runs inside a sandbox with this working directory; asked of the kernel, apart from the code. */
export function processesIn(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => mountsOf(pid).includes(folder));
}

function mountsOf(pid: number): string {
  try {
    // Outside, a mount for each folder is nothing anybody has.
    return readFileSync(`/proc/${pid}/mountinfo`, 'latin1');
  } catch {
    return '';
  }
}
