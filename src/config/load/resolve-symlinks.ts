import { lstatSync, readlinkSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, parse, sep } from 'node:path';

const maxLinks = 40;

function isLink(path: string): boolean | undefined {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw cause;
  }
}

const splitPath = (path: string): string[] => path.split(sep).filter((name) => name !== '' && name !== '.');

/**
 * Resolves a path: returns the real location of each symbolic link on the way, and at last the real path. Write access
 * to any of them decides what the path means. Parts that do not exist yet are kept as written.
 */
export function resolveSymlinks(path: string): string[] {
  const links: string[] = [];
  const absolute = isAbsolute(path) ? path : `${process.cwd()}${sep}${path}`;
  const { root } = parse(absolute);
  let real = root;
  let rest = splitPath(absolute.slice(root.length));
  while (rest.length > 0) {
    const [name, ...after] = rest as [string, ...string[]];
    rest = after;
    if (name === '..') {
      real = dirname(real);
      continue;
    }
    const next = join(real, name);
    const link = isLink(next);
    if (link === undefined) return [...links, join(realpathSync.native(real), name, ...after)];
    if (!link) {
      real = next;
      continue;
    }
    // realpath is needed because on file systems that ignore case only the system knows the real spelling.
    links.push(join(realpathSync.native(real), name));
    if (links.length > maxLinks)
      throw Object.assign(new Error('too many links'), { code: 'ELOOP', syscall: 'readlink' });
    const target = readlinkSync(next);
    if (isAbsolute(target)) real = root;
    rest = [...splitPath(target), ...after];
  }
  return [...links, realpathSync.native(real)];
}

/** Tells whether a path is the folder itself or lies in it. Both must be real paths. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
