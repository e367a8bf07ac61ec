import { findReading, foldKey } from './json/fold-key.ts';

/** The arguments of a tool as rules see them, or why they cannot be judged. Objects are Maps: no key is special. */
export type RuleArguments =
  | {
      readonly kind: 'read';
      readonly value: ReadonlyMap<string, unknown>;
      /** Number of values and length of the text: the cost of judging them. */
      readonly values: number;
      readonly length: number;
    }
  | { readonly kind: 'unsafe'; readonly reason: string };

const maxLength = 4 * 1024 * 1024;
const maxValues = 100_000;
const maxDepth = 64;

class UnsafeArgumentsError extends Error {}

/**
 * Reads a valid JSON text so that every reader of it sees what the rules judge. Ambiguous input is refused: a repeated
 * name, another spelling of one of `names`, a number that a double cannot hold, invalid Unicode.
 */
export function readRuleArguments(text: string, names: ReadonlySet<string>): RuleArguments {
  if (text.length > maxLength) return { kind: 'unsafe', reason: 'they are too large' };
  const folded = foldNames(names);
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
    if (/\p{Surrogate}/u.test(value)) throw new UnsafeArgumentsError('a text in them is not valid Unicode');
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
      // A JavaScript server that copies its arguments reads these members as if they were beside it.
      if (key === '__proto__') throw new UnsafeArgumentsError('"__proto__" is in them');
      if (!names.has(key) && findReading(key, folded) !== undefined) {
        throw new UnsafeArgumentsError(`"${shortenKey(key)}" is a different spelling of a name that a rule uses`);
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
    if (!(value instanceof Map)) return { kind: 'unsafe', reason: 'they are not an object' };
    return { kind: 'read', value, values, length: text.length };
  } catch (fault) {
    if (fault instanceof UnsafeArgumentsError) return { kind: 'unsafe', reason: fault.message };
    throw fault;
  }
}

const foldedNames = new WeakMap<ReadonlySet<string>, ReadonlySet<string>>();

/** Folds the names. Calls of one tool pass the same set, so it is folded once. */
function foldNames(names: ReadonlySet<string>): ReadonlySet<string> {
  let folded = foldedNames.get(names);
  if (folded === undefined) {
    folded = new Set([...names].map(foldKey));
    foldedNames.set(names, folded);
  }
  return folded;
}

const endOfScalar = new Set([',', ']', '}', ' ', '\t', '\n', '\r']);

/** Returns whole numbers as bigints, since CEL distinguishes them from fractions. */
function readNumber(raw: string): bigint | number {
  if (/^-?\d+$/.test(raw)) {
    if (!Number.isSafeInteger(Number(raw)))
      throw new UnsafeArgumentsError('a number in them is too large to be read exactly by every program');
    return BigInt(raw);
  }
  const value = Number(raw);
  if (!Number.isFinite(value))
    throw new UnsafeArgumentsError('a number in them is too large to be read exactly by every program');
  return value;
}

function shortenKey(key: string): string {
  return key.length > 40 ? `${key.slice(0, 39)}…` : key;
}
