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

/**
 * Returns the sessions that a reference may mean if it is written in another way: in other letter case, or as the number
 * alone, `049` or `#049` for `task#049`. Other alphabets have letters that become ASCII in lower case, so only ASCII counts.
 */
export function looseMatches<T extends { readonly id: string; readonly name: string | null }>(
  sessions: readonly T[],
  reference: string,
): readonly T[] {
  if (!isReference(reference) || !/^[\x21-\x7e]+$/.test(reference)) return [];
  const lower = reference.toLowerCase();
  const number = /^#?(\d+)$/.exec(reference)?.[1];
  return sessions.filter(
    ({ id, name }) =>
      name?.toLowerCase() === lower ||
      (number !== undefined && name?.endsWith(`#${number}`)) ||
      (isPrefix(lower) && id.startsWith(lower)),
  );
}
