import { takeDataDir } from '../../lib/fs/private-files.ts';
import { packagePin } from '../../sandbox/packages/packages.ts';
import { packagesIn } from '../../upstreams/access/confinement.ts';
import type { StdioServer } from '../../upstreams/definition.ts';
import type { FetchedPackage } from '../../upstreams/pins/server-pins.ts';
import { withSandbox } from '../assembly/open-sandbox.ts';

/** What has been fetched into a data directory. */
export const fetchedInto =
  (dataDir: string): FetchedPackage =>
  (command, args) =>
    packagePin(packagesIn(dataDir), command, args);

/** Fetches the package a server is started from, unless it is there or there is none; nothing of it is run. */
export async function fetchPackage(dataDir: string, { command, args }: StdioServer): Promise<void> {
  takeDataDir(dataDir);
  await withSandbox(dataDir, ({ runners }) => runners.packages.ready(command, args));
}
