/**
 * Characters that a terminal obeys or that nobody sees: controls, marks for formatting (such as the tags that spell
 * text), ends of lines, all that Unicode lets a reader ignore (such as variation selectors, which can spell text too),
 * and three signs without ink. The one selector that turns a sign into an emoji is seen.
 */
const hidden =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{1d159}\u{16fe4}](?<!(?!\p{Emoji_Presentation})\p{Extended_Pictographic}\ufe0f)/gu;

export function hasHidden(text: string): boolean {
  return text.search(hidden) !== -1;
}

/** Replaces each hidden character, which may be two units of the text. */
export function replaceHidden(text: string, replace: (character: string) => string): string {
  return text.replace(hidden, replace);
}
