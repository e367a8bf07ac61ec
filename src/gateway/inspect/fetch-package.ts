import { takeDataDir } from '../../lib/fs/private-files.ts';
import { packagePin } from '../../sandbox/packages/packages.ts';
import { packagesIn } from '../../upstreams/access/packages-in.ts';
import type { StdioServer } from '../../upstreams/definition.ts';
import type { FetchedPackage } from '../../upstreams/pins/pinned.ts';
import { withSandbox } from '../assembly/open-sandbox.ts';

/** Finds packages that were fetched into a data directory. */
export const fetchedInto =
  (dataDir: string): FetchedPackage =>
  (command, args) =>
    packagePin(packagesIn(dataDir), command, args);

/** Fetches the package of a server, if it has one and it is not there yet. Nothing of it is run. */
export async function fetchPackage(dataDir: string, { command, args }: StdioServer): Promise<void> {
  takeDataDir(dataDir);
  await withSandbox(dataDir, ({ runners }) => runners.packages.ready(command, args));
}
