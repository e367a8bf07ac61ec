/** A part of a text that stands for the one sought. */
export interface Match {
  readonly start: number;
  readonly end: number;
  /** The file ends where the text sought has one more line break. */
  readonly withoutBreak?: true;
  /** The lines there begin with `give` where those sought begin with `take`. */
  readonly indent?: { readonly take: string; readonly give: string };
}
