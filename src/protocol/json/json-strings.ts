const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/**
 * Gets the position of a string, quotes included, and the keys that lead to it, outermost first. For the name of a
 * member, its own key is the last one. The list of keys is reused after the visit.
 */
type VisitString = (start: number, end: number, keys: readonly string[], isKey: boolean) => void;

/** Visits every string in [from, to) of valid JSON, at any depth, in one pass. */
export function walkStrings(bytes: Buffer, from: number, to: number, visit: VisitString): void {
  const keys: string[] = [];
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if (byte === 0x7b) keys.push('');
    else if (byte === 0x7d) keys.pop();
    else if (byte === quote) {
      const end = findStringEnd(bytes, at);
      const isKey = isFollowedByColon(bytes, end);
      if (isKey) keys[keys.length - 1] = decodeStringToken(bytes, at, end);
      visit(at, end, keys, isKey);
      at = end - 1;
    }
  }
}

/** Decodes the string whose quotes lie at `start` and before `end`. */
export function decodeStringToken(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start + 1, end - 1);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

/** Finds the end of the string whose first quote lies at `start`. */
export function findStringEnd(bytes: Buffer, start: number): number {
  let at = start + 1;
  while (bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at + 1;
}

/** Whether the string that ends here is the name of a member. */
export function isFollowedByColon(bytes: Buffer, after: number): boolean {
  let at = after;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return bytes[at] === colon;
}
