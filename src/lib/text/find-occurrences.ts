/** Searches of up to this many steps are left to the engine, which is fast but can be made to take product-of-lengths. */
const affordable = 2 ** 24;

/** Where `run` begins in `text`, overlapping ones too, at most so many. Linear whatever the two are. */
export function placesOf(text: string, run: string, most: number): number[] {
  if (run === '' || run.length > text.length) return [];
  if (text.length * Math.min(run.length, text.length - run.length + 1) > affordable) {
    return findRuns(units(text), units(run), most);
  }
  const places: number[] = [];
  for (let at = text.indexOf(run); at !== -1 && places.length < most; at = text.indexOf(run, at + 1)) places.push(at);
  return places;
}

/** Knuth, Morris and Pratt. */
export function findRuns(all: ArrayLike<number>, run: ArrayLike<number>, most: number): number[] {
  const places: number[] = [];
  if (run.length === 0) return places;
  const fallback = new Int32Array(run.length);
  for (let i = 1, matched = 0; i < run.length; i++) {
    while (matched > 0 && run[i] !== run[matched]) matched = fallback[matched - 1] as number;
    if (run[i] === run[matched]) matched++;
    fallback[i] = matched;
  }
  for (let i = 0, matched = 0; i < all.length && places.length < most; i++) {
    while (matched > 0 && all[i] !== run[matched]) matched = fallback[matched - 1] as number;
    if (all[i] === run[matched]) matched++;
    if (matched === run.length) {
      places.push(i - run.length + 1);
      matched = fallback[matched - 1] as number;
    }
  }
  return places;
}

function units(text: string): Uint16Array {
  const bytes = Buffer.from(text, 'utf16le');
  return bytes.byteOffset % 2 === 0
    ? new Uint16Array(bytes.buffer, bytes.byteOffset, text.length)
    : new Uint16Array(Uint8Array.from(bytes).buffer);
}
