import { createHash } from 'node:crypto';
import { resolve } from 'node:path';

/** Each data directory has volumes of its own, named after the workspaces. */
export function volumeNameOf(dataDir: string, workspace: string): string {
  const home = createHash('sha256').update(resolve(dataDir)).digest('hex').slice(0, 16);
  return `ambit-${home}-${workspace}`;
}
