/** Limit of steps for a native search, which is fast but can take the product of both lengths. */
const maxNativeSteps = 2 ** 24;

/** Finds where `run` begins in `text`, also overlapping, up to `limit` times. Takes linear time for any input. */
export function findOccurrences(text: string, run: string, limit: number): number[] {
  if (run === '' || run.length > text.length) return [];
  if (text.length * Math.min(run.length, text.length - run.length + 1) > maxNativeSteps) {
    return findSequence(toCodeUnits(text), toCodeUnits(run), limit);
  }
  const starts: number[] = [];
  for (let at = text.indexOf(run); at !== -1 && starts.length < limit; at = text.indexOf(run, at + 1)) starts.push(at);
  return starts;
}

/** The algorithm of Knuth, Morris and Pratt. */
export function findSequence(all: ArrayLike<number>, run: ArrayLike<number>, limit: number): number[] {
  const starts: number[] = [];
  if (run.length === 0) return starts;
  const fallback = new Int32Array(run.length);
  for (let i = 1, matched = 0; i < run.length; i++) {
    while (matched > 0 && run[i] !== run[matched]) matched = fallback[matched - 1] as number;
    if (run[i] === run[matched]) matched++;
    fallback[i] = matched;
  }
  for (let i = 0, matched = 0; i < all.length && starts.length < limit; i++) {
    while (matched > 0 && all[i] !== run[matched]) matched = fallback[matched - 1] as number;
    if (all[i] === run[matched]) matched++;
    if (matched === run.length) {
      starts.push(i - run.length + 1);
      matched = fallback[matched - 1] as number;
    }
  }
  return starts;
}

function toCodeUnits(text: string): Uint16Array {
  const bytes = Buffer.from(text, 'utf16le');
  return bytes.byteOffset % 2 === 0
    ? new Uint16Array(bytes.buffer, bytes.byteOffset, text.length)
    : new Uint16Array(Uint8Array.from(bytes).buffer);
}
