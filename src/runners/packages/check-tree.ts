import { readdirSync, realpathSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { refuseOffender, showWord } from './refuse-offender.ts';

/**
 * Throws, with the name of the offender, when something in the folder leads out of it, or is neither a file nor a folder.
 * `mayLeave` says which links may, by their path in the folder.
 */
export function checkTree(folder: string, mayLeave: (path: string) => boolean = () => false): void {
  const root = realpathSync.native(folder);
  const open = [root];
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    for (const entry of readdirSync(current, { withFileTypes: true })) {
      const path = join(current, entry.name);
      const shown = relative(root, path);
      if (entry.isDirectory()) open.push(path);
      else if (entry.isSymbolicLink()) {
        if (!staysInside(path, root) && !mayLeave(shown))
          refuseOffender(`the link "${showWord(shown)}", which leads out of it`);
      } else if (!entry.isFile()) refuseOffender(`"${showWord(shown)}", which is neither a file nor a folder`);
    }
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
