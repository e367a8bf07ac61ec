import { AmbitError } from '../../errors.ts';
import { openRoot, type SafeRoot } from '../saferoot/open-root.ts';
import { SafeRootError, shownPath } from '../saferoot/saferoot-error.ts';

/** Beyond these it is left to git, whose time is limited. */
const mostEntries = 2_000_000;

/**
 * Refuses a session's folder in which something stands in place of a `.gitignore` that git waits for or cannot read: git
 * would go on without its rules, or not at all. A link and a folder of that name say nothing to git, and show as changes.
 */
export async function assertIgnoreFiles(tree: string): Promise<void> {
  const root = openRoot(tree);
  try {
    let left = mostEntries;
    const ahead = ['.'];
    for (let folder = ahead.pop(); folder !== undefined && left > 0; folder = ahead.pop()) {
      for (const { name, kind, unrepresentable } of await entriesOf(root, folder, left)) {
        left--;
        if (unrepresentable) continue;
        const path = folder === '.' ? name : `${folder}/${name}`;
        if (name === '.gitignore' && kind !== 'folder') await assertReadable(root, path);
        else if (kind === 'folder' && path !== '.git') ahead.push(path);
      }
    }
  } finally {
    root.close();
  }
}

/** None where it is gone or closed to us: whoever reads the files meets the same, where git does not ignore it. */
async function entriesOf(root: SafeRoot, folder: string, limit: number) {
  try {
    return (await root.list(folder, { limit })).entries;
  } catch (error) {
    if (error instanceof SafeRootError) return [];
    throw error;
  }
}

async function assertReadable(root: SafeRoot, path: string): Promise<void> {
  try {
    const { kind, mode } = await root.stat(path, { link: true });
    if (kind === 'link') return;
    // An account that may read everything would not notice, but git in its sandbox would.
    if ((mode & 0o400) === 0) throw new SafeRootError('NO_PERMISSION');
    const file = await root.open(path);
    await file.close();
  } catch (error) {
    if (!(error instanceof SafeRootError)) throw error;
    if (error.code === 'FILE_NOT_FOUND') return;
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: `${shownPath(path)} in the session's folder is no plain file that can be read, so git cannot say what is ignored.`,
      hint: 'Remove it in the session, or make it a plain file that can be read, and try again.',
      cause: error,
    });
  }
}
