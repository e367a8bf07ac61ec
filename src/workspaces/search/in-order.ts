/** Names in order, folder by folder, as a walk comes upon them: what ends a name comes before all that goes on with it. */
function orderOf(path: string): string {
  return path.replaceAll('/', '\0');
}

export function inOrder(paths: readonly string[]): string[] {
  const keyed = paths.map((path) => ({ path, key: orderOf(path) }));
  return keyed.sort((one, other) => (one.key < other.key ? -1 : 1)).map(({ path }) => path);
}
