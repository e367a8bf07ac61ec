/** Something in a package that did not come from the registry. It is refused with its name. */
export class OffenderError extends Error {}

const longest = 120;

/** Throws. `what` completes the sentence "it brings …". */
export function refuseOffender(what: string): never {
  throw new OffenderError(what);
}

/** A word of a package, to be shown to people: printable, short, and without the password of a URL. */
export function showWord(text: unknown): string {
  const plain = String(text)
    .replace(/\/\/[^/@\s]*@/g, '//')
    .replace(/[^\x20-\x7e]/g, '?');
  return plain.length > longest ? `${plain.slice(0, longest)}…` : plain;
}
