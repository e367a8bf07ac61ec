import { hash } from 'node:crypto';

/** The depth that Ambit allows in a message; a deeper one never came through Ambit. */
const maxDepth = 512;

/** Writes a parsed JSON value as RFC 8785 text. Throws if there is none: lone surrogates, infinities. */
export function toCanonicalText(value: unknown, depth = 0): string {
  if (depth > maxDepth) throw new RangeError('nested too deeply');
  if (typeof value === 'string') return quoteText(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new RangeError('a number beyond what JSON can hold');
    return JSON.stringify(value);
  }
  if (value === null || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return `[${value.map((item) => toCanonicalText(item, depth + 1)).join(',')}]`;
  if (typeof value !== 'object') throw new TypeError(`${typeof value} is not JSON`);
  const members = value as Readonly<Record<string, unknown>>;
  let text = '';
  // Sorted by UTF-16 code units, the default of sort(). Own keys only: "__proto__" may be one of them.
  for (const key of Object.keys(members).sort()) {
    text += `${text === '' ? '' : ','}${quoteText(key)}:${toCanonicalText(members[key], depth + 1)}`;
  }
  return `{${text}}`;
}

const plain = /^[ !#-[\]-~]{0,64}$/;

function quoteText(value: string): string {
  // A short text that needs no escape is faster without JSON.stringify.
  if (plain.test(value)) return `"${value}"`;
  if (/\p{Surrogate}/u.test(value)) throw new RangeError('a string that is not Unicode');
  return JSON.stringify(value);
}

/** The `argsSha256` of the token; undefined if the arguments have no canonical text. */
export function digestArguments(given: unknown): string | undefined {
  try {
    return hash('sha256', toCanonicalText(given === undefined ? {} : given), 'hex');
  } catch {
    return undefined;
  }
}
