import { chmod, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Removes a folder and says whether it is gone. Links inside are removed, never followed. */
export async function removeFolder(path: string): Promise<boolean> {
  const options = { recursive: true, force: true, maxRetries: 3, retryDelay: 20 } as const;
  try {
    await rm(path, options);
    return true;
  } catch {
    // Some programs write-protect their folders, and then even the owner cannot empty them.
    await makeWritable(path);
  }
  return rm(path, options).then(
    () => true,
    () => false,
  );
}

async function makeWritable(folder: string): Promise<void> {
  try {
    await chmod(folder, 0o700);
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) await makeWritable(join(folder, entry.name));
    }
  } catch {
    // Not ours to change; the second removal reports it.
  }
}
