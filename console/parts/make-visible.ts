/**
 * Characters that hide, reorder or break text: controls, bidirectional marks, separators, lone surrogates, all that
 * Unicode lets a browser leave out, and signs without ink. The one selector that turns a sign into an emoji is seen.
 */
const unsafe =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{16fe4}](?<!(?!\p{Emoji_Presentation})\p{Extended_Pictographic}\ufe0f)/gu;

/** More marks on one letter than any language has: they would cover the lines around it. */
const heap = /(\p{M}{6})\p{M}+/gu;

/** Writes the characters of a foreign text that could deceive the reader as their code. */
export function makeVisible(text: string, keep = ''): string {
  // Selectors are marks too. First shown one by one, they cannot change within a heap unseen.
  return text
    .replace(unsafe, (char) =>
      keep.includes(char) ? char : `⟨${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
    )
    .replace(heap, '$1⟨…⟩');
}
