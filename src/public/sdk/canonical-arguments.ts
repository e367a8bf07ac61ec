import { createHash } from 'node:crypto';

/** As deep as Ambit lets a message be; what is deeper never came through it. */
const maxDepth = 512;

/** RFC 8785 for values that `JSON.parse` made. Throws where that text does not exist: lone surrogates, infinities. */
export function canonicalText(value: unknown, depth = 0): string {
  if (depth > maxDepth) throw new RangeError('nested too deeply');
  if (typeof value === 'string') return text(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new RangeError('a number beyond what JSON can hold');
    return JSON.stringify(value);
  }
  if (value === null || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item, depth + 1)).join(',')}]`;
  if (typeof value !== 'object') throw new TypeError(`${typeof value} is not JSON`);
  const members = value as Readonly<Record<string, unknown>>;
  // By UTF-16 code units, which is what sort() does by itself. Own keys only: "__proto__" may be one of them.
  const parts = Object.keys(members)
    .sort()
    .map((key) => `${text(key)}:${canonicalText(members[key], depth + 1)}`);
  return `{${parts.join(',')}}`;
}

function text(value: string): string {
  if (/\p{Surrogate}/u.test(value)) throw new RangeError('a string that is not Unicode');
  return JSON.stringify(value);
}

/** What the token calls `argsSha256`; undefined where there is no such text. */
export function argumentsDigest(given: unknown): string | undefined {
  try {
    return createHash('sha256')
      .update(canonicalText(given === undefined ? {} : given))
      .digest('hex');
  } catch {
    return undefined;
  }
}
