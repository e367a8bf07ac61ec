import { toLf } from './line-endings.ts';

/** A text without what does not count, and the way back. */
export interface Squeezed {
  readonly text: string;
  /** Where characters of the squeezed text stand in the original; their places come in rising order. */
  origins(places: readonly number[]): number[];
}

/** With LF for CRLF. */
export function squeezeBreaks(text: string): Squeezed {
  return {
    text: toLf(text),
    origins(places) {
      let left = 0;
      let next = text.indexOf('\r\n');
      return places.map((place) => {
        for (; next !== -1 && next - left <= place; next = text.indexOf('\r\n', next + 2)) left++;
        return place + left;
      });
    },
  };
}

/**
 * With LF for CRLF, and without the blanks at the end of lines. Walks back from each break, since an expression for it
 * can be made to take the square of the length.
 */
export function squeezeBlanks(text: string): Squeezed {
  const pieces: string[] = [];
  const gaps: { readonly at: number; readonly left: number }[] = [];
  let length = 0;
  let from = 0;

  for (let line = 0; line <= text.length; ) {
    const found = text.indexOf('\n', line);
    const end = found === -1 ? text.length : found;
    let kept = found > line && text[found - 1] === '\r' ? found - 1 : end;
    while (kept > line && isBlank(text.charCodeAt(kept - 1))) kept--;
    if (kept < end) {
      pieces.push(text.slice(from, kept));
      length += kept - from;
      from = end;
      gaps.push({ at: length, left: end - length });
    }
    line = end + 1;
  }
  pieces.push(text.slice(from));

  return {
    text: pieces.join(''),
    origins(places) {
      let passed = 0;
      let left = 0;
      return places.map((place) => {
        for (let gap = gaps[passed]; gap !== undefined && gap.at <= place; gap = gaps[++passed]) left = gap.left;
        return place + left;
      });
    },
  };
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}
