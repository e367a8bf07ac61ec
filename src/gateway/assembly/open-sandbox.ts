import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { createTmpRoot, sweepLeftovers } from '../../sandbox/common/sweep-leftovers.ts';
import type { OnInstall } from '../../sandbox/packages/package-store.ts';
import { createReaper, type Reaper } from '../../sandbox/reaper/reaper.ts';
import type { Runners } from '../../sandbox/runner.ts';
import { createRunners, monitorSandbox, type SandboxMonitor } from '../../sandbox/runners.ts';
import { packagesFolder } from '../../upstreams/access/confinement.ts';
import { createGitRunner, type RunGit } from '../../workspaces/session-folders/git/git.ts';
import { type ClosingStack, createClosingStack } from './closing-stack.ts';

/** The parts that start programs. Opening them starts none. */
export interface Sandbox {
  /** The temporary folder of this process in the data directory. The reaper finds the folders of programs there. */
  readonly tmpRoot: string;
  readonly reaper: Reaper;
  readonly runners: Runners;
  readonly sandbox: SandboxMonitor;
  readonly git: RunGit;
  /** True when no other process of Ambit works in this data directory. */
  isAlone(): Promise<boolean>;
}

/** Opens the parts and ends processes that killed gateways left behind. */
export async function openSandbox(dataDir: string, closing: ClosingStack, onInstall?: OnInstall): Promise<Sandbox> {
  const tmpParent = join(dataDir, 'tmp');
  await sweepLeftovers(tmpParent);
  const tmpRoot = await createTmpRoot(tmpParent);
  closing.push(() => removeFolder(tmpRoot));
  const reaper = createReaper({ tmpRoot });
  closing.push(reaper.close);
  const runners = createRunners({ reaper: reaper, tmpRoot, packages: packagesFolder(dataDir), onInstall });
  closing.push(runners.directPackages.close);
  const sandbox = monitorSandbox(runners);
  closing.push(sandbox.settled);
  return {
    tmpRoot,
    reaper,
    runners,
    sandbox,
    git: createGitRunner({ sandbox: runners.sandbox, tmpRoot }),
    isAlone: async () => (await readdir(tmpParent)).length <= 1,
  };
}

/** Opens the parts for one task and closes them afterwards. */
export async function withSandbox<T>(
  dataDir: string,
  work: (sandbox: Sandbox) => Promise<T>,
  onInstall?: OnInstall,
): Promise<T> {
  const closing = createClosingStack();
  try {
    return await work(await openSandbox(dataDir, closing, onInstall));
  } finally {
    await closing.close();
  }
}
