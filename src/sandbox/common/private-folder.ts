import { lstat, mkdir } from 'node:fs/promises';

/** A link or file in its place is refused. */
export async function makePrivateFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const existing = await lstat(path).catch(() => undefined);
    if (!existing?.isDirectory()) throw error;
  }
}
