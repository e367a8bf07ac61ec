import { join } from 'node:path';

/** The folder of packages that servers are started from. */
export const packagesIn = (dataDir: string): string => join(dataDir, 'packages');
