import { execFile } from 'node:child_process';
import { chownSync, closeSync, openSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const numbers = { null: '3', zero: '5', full: '7', random: '8', urandom: '9' } as const;
const nobody = 65534;

/** A device file and the place it takes inside. */
export interface Device {
  readonly path: string;
  readonly inside: string;
}

/**
 * Device files that belong to nobody. Those of the machine belong to root, and when Ambit is root, so does the sandbox's
 * user: it could take `/dev/null` from everybody with a chmod. Empty where they are not needed, or cannot be made.
 */
export async function ownDevices(folder: string): Promise<readonly Device[]> {
  if (process.getuid?.() !== 0) return [];
  try {
    await mkdir(folder, { mode: 0o700 });
    return await Promise.all(
      Object.entries(numbers).map(async ([name, minor]) => {
        const path = join(folder, name);
        await promisify(execFile)('mknod', ['-m', '666', path, 'c', '1', minor]);
        chownSync(path, nobody, nobody);
        // Not every file system lets devices be used.
        closeSync(openSync(path, 'r'));
        return { path, inside: `/dev/${name}` };
      }),
    );
  } catch {
    return [];
  }
}
