import { foldKey, readingIn } from './json/fold-key.ts';

/** A tool's arguments as a rule may judge them, or why no rule can. Objects are Maps: no name in them is special. */
export type RuleArguments =
  | {
      readonly kind: 'read';
      readonly value: ReadonlyMap<string, unknown>;
      /** How many values there are in it, and how long its text is: what judging it may cost. */
      readonly values: number;
      readonly length: number;
    }
  | { readonly kind: 'unsafe'; readonly reason: string };

const maxLength = 4 * 1024 * 1024;
const maxValues = 100_000;
const maxDepth = 64;

class UnsafeArgumentsError extends Error {}

/**
 * Reads a JSON text, which is known to be valid, so that every reader of it sees what is judged here. What two readers
 * may take differently is refused: a name twice, one of `names` in another spelling, numbers that a double does not
 * hold, text that is no Unicode.
 */
export function readJudged(text: string, names: ReadonlySet<string>): RuleArguments {
  if (text.length > maxLength) return { kind: 'unsafe', reason: 'they are too large' };
  const folded = new Set([...names].map(foldKey));
  let at = 0;
  let values = 0;

  function skipSpace(): void {
    while (at < text.length && text.charCodeAt(at) <= 0x20) at++;
  }

  function readString(): string {
    const start = at++;
    let plain = true;
    for (let code = text.charCodeAt(at); code !== 0x22; code = text.charCodeAt(at)) {
      if (code === 0x5c) {
        plain = false;
        at++;
      }
      at++;
      if (at >= text.length) throw new UnsafeArgumentsError('they are not valid JSON');
    }
    at++;
    if (plain) return text.slice(start + 1, at - 1);
    const value = JSON.parse(text.slice(start, at)) as string;
    if (/\p{Surrogate}/u.test(value)) throw new UnsafeArgumentsError('a text in them is no Unicode');
    return value;
  }

  function readScalar(): unknown {
    const start = at;
    while (at < text.length && !endOfScalar.has(text[at] as string)) at++;
    const raw = text.slice(start, at);
    if (raw === 'true' || raw === 'false') return raw === 'true';
    if (raw === 'null') return null;
    return readNumber(raw);
  }

  function readArray(depth: number): unknown[] {
    const items: unknown[] = [];
    at++;
    skipSpace();
    while (text[at] !== ']') {
      items.push(readValue(depth + 1));
      if (text[at] === ',') at++;
      skipSpace();
    }
    at++;
    return items;
  }

  function readObject(depth: number): Map<string, unknown> {
    const members = new Map<string, unknown>();
    at++;
    skipSpace();
    while (text[at] !== '}') {
      const key = readString();
      if (members.has(key)) throw new UnsafeArgumentsError(`"${shortenKey(key)}" is in them twice`);
      // A JavaScript server that copies its arguments reads what is in there as if it were beside it.
      if (key === '__proto__') throw new UnsafeArgumentsError('"__proto__" is in them');
      if (!names.has(key) && readingIn(key, folded) !== undefined) {
        throw new UnsafeArgumentsError(`"${shortenKey(key)}" is another spelling of a name that a rule reads`);
      }
      skipSpace();
      at++;
      members.set(key, readValue(depth + 1));
      if (text[at] === ',') at++;
      skipSpace();
    }
    at++;
    return members;
  }

  function readValue(depth: number): unknown {
    if (depth > maxDepth) throw new UnsafeArgumentsError('they are nested too deeply');
    if (++values > maxValues) throw new UnsafeArgumentsError('they are too large');
    skipSpace();
    const first = text[at];
    const value =
      first === '"'
        ? readString()
        : first === '{'
          ? readObject(depth)
          : first === '['
            ? readArray(depth)
            : readScalar();
    skipSpace();
    return value;
  }

  try {
    const value = readValue(1);
    if (!(value instanceof Map)) return { kind: 'unsafe', reason: 'they are no object' };
    return { kind: 'read', value, values, length: text.length };
  } catch (fault) {
    if (fault instanceof UnsafeArgumentsError) return { kind: 'unsafe', reason: fault.message };
    throw fault;
  }
}

const endOfScalar = new Set([',', ']', '}', ' ', '\t', '\n', '\r']);

/** Whole numbers are bigints, as the conditions' language has them apart from fractions. */
function readNumber(raw: string): bigint | number {
  if (/^-?\d+$/.test(raw)) {
    if (!Number.isSafeInteger(Number(raw)))
      throw new UnsafeArgumentsError('a number in them is larger than every reader can hold');
    return BigInt(raw);
  }
  const value = Number(raw);
  if (!Number.isFinite(value)) throw new UnsafeArgumentsError('a number in them is larger than every reader can hold');
  return value;
}

function shortenKey(key: string): string {
  return key.length > 40 ? `${key.slice(0, 39)}…` : key;
}
