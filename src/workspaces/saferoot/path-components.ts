import { SafeRootError } from './saferoot-error.ts';

/** What Linux and macOS take in one call; nobody means more. */
const maxPathBytes = 4096;
const maxNameBytes = 255;

/**
 * The components of a path as the kernel would see them, `..` and empty ones included: what they mean depends on
 * what lies there, so only the walk can say. A component no file can have is refused here.
 */
export function parsePath(path: string): string[] {
  if (typeof path !== 'string') throw new SafeRootError('PATH_INVALID', { what: 'is not text' });
  if (path === '') throw new SafeRootError('PATH_INVALID', { path, what: 'is empty; the folder itself is "."' });
  if (path.startsWith('/')) throw new SafeRootError('PATH_VIOLATION', { path, what: 'is not relative to the folder' });
  if (path.includes('\0')) throw new SafeRootError('PATH_INVALID', { path, what: 'contains a NUL' });
  // Half a character would be written as U+FFFD, and so name another file than the one asked for.
  if (/\p{Cs}/u.test(path)) throw new SafeRootError('PATH_INVALID', { path, what: 'is not well-formed Unicode' });
  if (Buffer.byteLength(path) >= maxPathBytes) throw new SafeRootError('NAME_TOO_LONG', { path });
  const components = path.split('/');
  for (const component of components) {
    // No character takes more than three bytes per UTF-16 unit.
    if (component.length * 3 > maxNameBytes && Buffer.byteLength(component) > maxNameBytes) {
      throw new SafeRootError('NAME_TOO_LONG', { path });
    }
  }
  return components;
}

/** Whether no further component names anything, so that the one before decides where a path ends. */
export function hasOnlyDots(components: readonly string[]): boolean {
  return components.every((component) => component === '' || component === '.');
}

/** Resolves `..` by names alone, as if there were no links. */
export function resolveDots(components: readonly string[]): string[] {
  const names: string[] = [];
  for (const name of components) {
    if (name === '..') names.pop();
    else if (name !== '' && name !== '.') names.push(name);
  }
  return names;
}

/** "new/" is a usual way to write a folder; without its slash it is a name, which may be missing. */
export function stripTrailingSlash(path: string): string {
  return path.replace(/(?<=[^/])\/+$/, '');
}

/** The names of a path, however it is written: without empty ones and dots. What `..` means only a walk can say. */
export function splitIntoNames(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}
