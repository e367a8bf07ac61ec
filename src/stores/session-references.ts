const minPrefixLength = 4;
export const maxMatches = 10;

/** Returns the best kind of match: the id itself, else the name, else the beginning of an id. */
export function bestMatches<T extends { readonly id: string; readonly name: string | null }>(
  sessions: readonly T[],
  reference: string,
): readonly T[] {
  const exact = sessions.filter((session) => session.id === reference);
  if (exact.length > 0) return exact;
  const named = sessions.filter((session) => session.name === reference);
  if (named.length > 0) return named.slice(0, maxMatches);
  return isPrefix(reference) ? sessions.filter(({ id }) => id.startsWith(reference)).slice(0, maxMatches) : [];
}

/** Longer texts name nothing, and are never sent to a store. */
export function isReference(reference: string): boolean {
  return reference !== '' && reference.length <= 512;
}

export function isPrefix(reference: string): boolean {
  return reference.length >= minPrefixLength && /^[a-z0-9][a-z0-9-]*$/.test(reference);
}
