import { foldName } from '../../lib/text/fold-name.ts';

/** Characters of most keys: no reader drops any of them. */
const plainKey = /^[\x21-\x7e]*$/;
const invisibleCharacters = /[\p{Cc}\p{Cf}\p{Cs}]/gu;
const fromControlOn = /\p{Cc}.*$/su;

/**
 * Folds a key as the most lenient reader does. Some ignore letter case by Unicode's rules, where "ſ" is an s and the
 * kelvin sign a k; some drop invisible characters, or trim.
 */
export function foldKey(key: string): string {
  return plainKey.test(key) ? key.toLowerCase() : foldName(key.replace(invisibleCharacters, '')).trim();
}

/** Finds the folded name that some reader may take a key for. Some readers end a key at a control character. */
export function findReading(key: string, names: { has(name: string): boolean }): string | undefined {
  if (plainKey.test(key)) {
    const lower = key.toLowerCase();
    return names.has(lower) ? lower : undefined;
  }
  const folded = foldKey(key);
  if (names.has(folded)) return folded;
  const ended = cutAtControl(key);
  return ended !== undefined && names.has(ended) ? ended : undefined;
}

/** Whether some reader may take a key for this folded name. */
export function readsAs(key: string, name: string): boolean {
  return foldKey(key) === name || cutAtControl(key) === name;
}

/** Whether some reader takes two of these keys for the same. */
export function hasTwinKeys(keys: readonly string[]): boolean {
  const seen = new Set<string>();
  for (const key of keys) {
    const folded = foldKey(key);
    const ended = cutAtControl(key) ?? folded;
    if (seen.has(folded) || seen.has(ended)) return true;
    seen.add(folded).add(ended);
  }
  return false;
}

/** Whether a key has characters that some reader drops, stops at or replaces. No name of the protocol has one. */
export function isOddKey(key: string): boolean {
  return !plainKey.test(key);
}

/** Cuts a key at its first control character; undefined if it has none. White space at the ends is trimmed first. */
function cutAtControl(key: string): string | undefined {
  if (plainKey.test(key)) return undefined;
  const ended = key.trim().replace(fromControlOn, '');
  return ended.length === key.length ? undefined : foldKey(ended);
}
