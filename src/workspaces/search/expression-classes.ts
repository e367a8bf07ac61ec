/** What a line has none of, or what ends it: no class contains these, so that both engines see the same. */
export const lineEnds = '\\n\\r';

/** Ranges of code points for what stands in brackets; a class is the same whatever language a text is in. */
export const perlClasses: Readonly<Record<string, string>> = {
  d: '0-9',
  D: '\\x{0}-\\x{9}\\x{B}\\x{C}\\x{E}-\\x{2F}\\x{3A}-\\x{10FFFF}',
  w: '0-9A-Z_a-z',
  W: '\\x{0}-\\x{9}\\x{B}\\x{C}\\x{E}-\\x{2F}\\x{3A}-\\x{40}\\x{5B}-\\x{5E}\\x{60}\\x{7B}-\\x{10FFFF}',
  s: '\\x{9}\\x{B}\\x{C}\\x{20}',
  S: '\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{10FFFF}',
};

export const posixClasses: ReadonlySet<string> = new Set(
  'alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit'.split(' '),
);

const controls: Readonly<Record<string, number>> = { t: 9, v: 11, f: 12, r: 13, a: 7 };

export function controlNamed(letter: string): number | undefined {
  return Object.hasOwn(controls, letter) ? controls[letter] : undefined;
}

/** One character, so that no engine sees more in it. */
export function literal(code: number): string {
  const character = String.fromCodePoint(code);
  return /^[A-Za-z0-9_]$/.test(character) || code > 0x7f ? character : `\\x{${code.toString(16).toUpperCase()}}`;
}
