import { join } from 'node:path';

/** Where packages are kept that servers are started from. */
export const packagesIn = (dataDir: string): string => join(dataDir, 'packages');
