import { join } from 'node:path';
import type { FetchedPackage } from '../approvals/pinned.ts';
import { takeDataDir } from '../private-files.ts';
import { removeFolder } from '../remove-folder.ts';
import { packagePin } from '../runners/packages/packages.ts';
import { createRunners } from '../runners/runners.ts';
import { createTmpRoot } from '../runners/sweep-leftovers.ts';
import { createWarden } from '../runners/warden.ts';
import type { StdioServer } from '../upstreams/definition.ts';

/** Where packages are kept that servers are started from. */
export const packagesIn = (dataDir: string): string => join(dataDir, 'packages');

/** What has been fetched into a data directory. */
export const fetchedInto =
  (dataDir: string): FetchedPackage =>
  (command, args) =>
    packagePin(packagesIn(dataDir), command, args);

/** Fetches the package a server is started from, unless it is there or there is none; nothing of it is run. */
export async function fetchPackage(dataDir: string, { command, args }: StdioServer): Promise<void> {
  takeDataDir(dataDir);
  const tmpRoot = await createTmpRoot(join(dataDir, 'tmp'));
  const warden = createWarden({ tmpRoot });
  try {
    await createRunners({ warden, tmpRoot, packages: packagesIn(dataDir) }).packages.ready(command, args);
  } finally {
    await warden.close();
    await removeFolder(tmpRoot);
  }
}
