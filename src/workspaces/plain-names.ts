/** The names of a path, however it is written: without empty ones and dots. What `..` means only a walk can say. */
export function plainNames(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}
