export interface Squeezed {
  readonly text: string;
  /** Where a character of the squeezed text stands in the original. */
  origin(offset: number): number;
}

/**
 * The text with line breaks as LF, and on demand without the blanks before them, so that what looks the same is the
 * same. Walks back from each break, since an expression for it can be made to take the square of the length.
 */
export function squeeze(text: string, withoutBlanks: boolean): Squeezed {
  const pieces: string[] = [];
  const squeezedAt: number[] = [0];
  const originalAt: number[] = [0];
  let length = 0;
  let from = 0;

  function leaveOut(start: number, end: number): void {
    if (start === end) return;
    pieces.push(text.slice(from, start));
    length += start - from;
    squeezedAt.push(length);
    originalAt.push(end);
    from = end;
  }

  for (let line = 0; line <= text.length; ) {
    const found = text.indexOf('\n', line);
    const end = found === -1 ? text.length : found;
    let kept = found !== -1 && found > line && text[found - 1] === '\r' ? found - 1 : end;
    if (withoutBlanks) while (kept > line && isBlank(text.charCodeAt(kept - 1))) kept--;
    leaveOut(kept, end);
    line = end + 1;
  }
  pieces.push(text.slice(from));

  return {
    text: pieces.length === 1 ? text : pieces.join(''),
    origin(offset) {
      const segment = lastAtMost(squeezedAt, offset);
      return (originalAt[segment] as number) + offset - (squeezedAt[segment] as number);
    },
  };
}

function isBlank(code: number): boolean {
  return code === 32 || code === 9;
}

/** The index of the last of these rising numbers that is not greater; −1 where all are. */
function lastAtMost(rising: readonly number[], value: number): number {
  let low = 0;
  let high = rising.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rising[middle] as number) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
