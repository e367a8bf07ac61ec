import { claimDataDir } from '../../lib/fs/private-files.ts';
import type { OnInstall } from '../../sandbox/packages/package-store.ts';
import { readPackagePin } from '../../sandbox/packages/packages.ts';
import { packagesFolder } from '../../upstreams/access/confinement.ts';
import type { StdioServer } from '../../upstreams/definition.ts';
import type { FindFetchedPackage } from '../../upstreams/pins/server-pins.ts';
import { withSandbox } from '../assembly/open-sandbox.ts';

/** Finds packages that were fetched into a data directory. */
export const createFetchedPackage =
  (dataDir: string): FindFetchedPackage =>
  (command, args) =>
    readPackagePin(packagesFolder(dataDir), command, args);

/** Fetches the package of a server, if it has one and it is not there yet. Nothing of it is run. */
export async function fetchPackage(
  dataDir: string,
  { command, args }: StdioServer,
  onInstall?: OnInstall,
): Promise<void> {
  claimDataDir(dataDir);
  await withSandbox(dataDir, ({ runners }) => runners.packages.ready(command, args), onInstall);
}
