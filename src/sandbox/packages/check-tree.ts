import { realpathSync } from 'node:fs';
import { relative, sep } from 'node:path';
import { fetchedEntries } from './fetched-entries.ts';
import { refuseOffender, showWord } from './refuse-offender.ts';

/**
 * Throws, with the name of the offender, when something in the folder leads out of it, or is neither a file nor a folder.
 * `mayLeave` says which links may, by their path in the folder.
 */
export async function checkTree(folder: string, mayLeave: (path: string) => boolean = () => false): Promise<void> {
  const root = realpathSync.native(folder);
  for await (const { path, entry } of fetchedEntries(root)) {
    if (entry.isDirectory() || entry.isFile()) continue;
    const shown = relative(root, path);
    if (!entry.isSymbolicLink()) refuseOffender(`"${showWord(shown)}", which is neither a file nor a folder`);
    if (!staysInside(path, root) && !mayLeave(shown))
      refuseOffender(`the link "${showWord(shown)}", which leads out of it`);
  }
}

function staysInside(link: string, root: string): boolean {
  try {
    return realpathSync.native(link).startsWith(root + sep);
  } catch {
    // A link that leads nowhere now may lead somewhere later.
    return false;
  }
}
