import { SafeRootError } from './saferoot-error.ts';

/** The longest path that Linux and macOS accept in one call. */
const maxPathBytes = 4096;
const maxNameBytes = 255;
/** The deepest folder that a path may lead to. */
export const maxDepth = 128;
/** The names of a path with `..`, which the walk resolves. Each costs a look at its folder. */
const maxNamesWithDots = 4 * maxDepth;

/**
 * Splits a path into components as the kernel sees them, with `..` and empty ones: only the walk knows what they mean.
 * Refuses components that no file can have.
 */
export function parsePath(path: string): string[] {
  if (typeof path !== 'string') throw new SafeRootError('PATH_INVALID', { what: 'is not text' });
  if (path === '') throw new SafeRootError('PATH_INVALID', { path, what: 'is empty; use "." for the folder itself' });
  if (path.startsWith('/')) throw new SafeRootError('PATH_VIOLATION', { path, what: 'is not relative to the folder' });
  if (path.includes('\0')) throw new SafeRootError('PATH_INVALID', { path, what: 'contains a NUL' });
  // Half a surrogate pair would be written as U+FFFD and name another file.
  if (/\p{Cs}/u.test(path)) throw new SafeRootError('PATH_INVALID', { path, what: 'is not well-formed Unicode' });
  if (Buffer.byteLength(path) >= maxPathBytes) throw new SafeRootError('NAME_TOO_LONG', { path });
  const components = path.split('/');
  const names = components.filter((component) => component !== '' && component !== '.' && component !== '..');
  // Refused here, because every later check looks at each folder of the path.
  if (names.length > (components.includes('..') ? maxNamesWithDots : maxDepth))
    throw new SafeRootError('TOO_DEEP', { path });
  for (const component of components) {
    // A UTF-16 unit takes at most three bytes.
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

/** Removes slashes at the end: "new/" often names a folder, which may be missing. */
export function stripTrailingSlash(path: string): string {
  return path.replace(/(?<=[^/])\/+$/, '');
}

/** Splits a path into its names, without empty ones and dots. `..` stays: only a walk can resolve it. */
export function splitIntoNames(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}
