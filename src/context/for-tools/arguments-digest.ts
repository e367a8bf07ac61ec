import { hash } from 'node:crypto';

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
/** No double needs more digits to be written exactly; longer numbers are refused. */
const maxNumberLength = 40;

/** The digest of `{}`, which stands for a request without arguments. */
export const noArgumentsDigest = hash('sha256', '{}', 'hex');

/**
 * Computes the lower-case hex SHA-256 of the RFC 8785 form of a valid JSON text. Undefined where RFC 8785 cannot
 * represent it: numbers that a double does not hold, text that is not Unicode, duplicate names.
 */
export function computeArgumentsDigest(text: Buffer): string | undefined {
  if (isCanonical(text)) return hash('sha256', text, 'hex');
  const members = countMembers(text);
  if (members === undefined) return undefined;
  const printed = printCanonically(JSON.parse(text.toString('utf8')));
  // A duplicate name is lost in the parsed value, though another reader may take it.
  return printed.members === members ? hash('sha256', printed.text, 'hex') : undefined;
}

/** Prints a parsed value as RFC 8785 and counts its members. */
function printCanonically(value: unknown): { readonly text: string; readonly members: number } {
  let text = '';
  let members = 0;

  function printValue(item: unknown): void {
    if (Array.isArray(item)) {
      let separator = '[';
      for (const inner of item) {
        text += separator;
        separator = ',';
        printValue(inner);
      }
      text += item.length === 0 ? '[]' : ']';
    } else if (typeof item === 'object' && item !== null) printObject(item as Record<string, unknown>);
    else text += typeof item === 'string' ? quoteText(item) : String(item);
  }

  function printObject(item: Readonly<Record<string, unknown>>): void {
    // RFC 8785 sorts by UTF-16 code units, as sort() does. Object.keys also finds an own "__proto__".
    const keys = Object.keys(item).sort();
    members += keys.length;
    let separator = '{';
    for (const key of keys) {
      text += `${separator}${quoteText(key)}:`;
      separator = ',';
      printValue(item[key]);
    }
    text += keys.length === 0 ? '{}' : '}';
  }

  printValue(value);
  return { text, members };
}

const plain = /^[ !#-[\]-~]{0,64}$/;

/** Quotes a text. A short one that needs no escape is faster without JSON.stringify. */
function quoteText(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
}

/** Recognises a flat object of simple values, sorted and without spaces, which is canonical as it is. */
function isCanonical(text: Buffer): boolean {
  const last = text.length - 1;
  if (text[0] !== openBrace || text[last] !== closeBrace) return false;
  if (last === 1) return true;
  let at = 1;
  let previousStart = -1;
  let previousEnd = -1;
  for (;;) {
    const keyStart = at;
    const keyEnd = endOfSimpleString(text, at);
    if (keyEnd === -1 || text[keyEnd] !== colon) return false;
    if (previousStart !== -1 && !isBefore(text, previousStart, previousEnd, keyStart, keyEnd)) return false;
    previousStart = keyStart;
    previousEnd = keyEnd;
    at = endOfSimpleValue(text, keyEnd + 1);
    if (at === -1) return false;
    if (at === last) return true;
    if (text[at] !== comma) return false;
    at++;
  }
}

/** The end of a string of printable ASCII without escapes; -1 for any other. */
function endOfSimpleString(text: Buffer, at: number): number {
  if (text[at] !== quote) return -1;
  for (let i = at + 1; i < text.length; i++) {
    const byte = text[i] as number;
    if (byte === quote) return i + 1;
    if (byte < 0x20 || byte > 0x7e || byte === 0x5c) return -1;
  }
  return -1;
}

function endOfSimpleValue(text: Buffer, at: number): number {
  const first = text[at] as number;
  if (first === quote) return endOfSimpleString(text, at);
  if (first === 0x74 || first === 0x6e) return at + 4;
  if (first === 0x66) return at + 5;
  if (first < 0x31 || first > 0x39) return -1;
  let end = at + 1;
  while (end < text.length && (text[end] as number) >= 0x30 && (text[end] as number) <= 0x39) end++;
  return end - at <= 15 && (text[end] === comma || text[end] === closeBrace) ? end : -1;
}

/** Compares two names; false when they are equal. */
function isBefore(text: Buffer, aStart: number, aEnd: number, bStart: number, bEnd: number): boolean {
  for (let i = 1; ; i++) {
    if (bStart + i >= bEnd - 1) return false;
    if (aStart + i >= aEnd - 1) return true;
    const a = text[aStart + i] as number;
    const b = text[bStart + i] as number;
    if (a !== b) return a < b;
  }
}

/**
 * Counts the members of a valid JSON text; undefined where a double does not hold a number or a text is not Unicode.
 */
function countMembers(text: Buffer): number | undefined {
  let members = 0;
  for (let at = 0; at < text.length; ) {
    const byte = text[at] as number;
    if (byte === quote) {
      at = endOfString(text, at);
      if (at === -1) return undefined;
    } else if (byte === 0x2d || isDigit(byte)) {
      const end = endOfNumber(text, at);
      if (!isExactNumber(text, at, end)) return undefined;
      at = end;
    } else {
      if (byte === colon) members++;
      at++;
    }
  }
  return members;
}

/** The end of a string; -1 where it contains half of a surrogate pair. */
function endOfString(text: Buffer, start: number): number {
  let at = start + 1;
  for (;;) {
    const byte = text[at];
    if (byte === quote || byte === undefined) return at + 1;
    if (byte !== backslash) at++;
    else if (text[at + 1] !== 0x75) at += 2;
    else {
      const half = surrogateHalfAt(text, at);
      if (half === 'second' || (half === 'first' && surrogateHalfAt(text, at + 6) !== 'second')) return -1;
      at += half === 'first' ? 12 : 6;
    }
  }
}

/** The half of a surrogate pair that the escape at this offset stands for, if any. */
function surrogateHalfAt(text: Buffer, at: number): 'first' | 'second' | undefined {
  if (text[at] !== backslash || text[at + 1] !== 0x75 || ((text[at + 2] as number) | 0x20) !== 0x64) return undefined;
  const digit = (text[at + 3] as number) | 0x20;
  if (digit === 0x38 || digit === 0x39 || digit === 0x61 || digit === 0x62) return 'first';
  return digit >= 0x63 && digit <= 0x66 ? 'second' : undefined;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function endOfNumber(text: Buffer, start: number): number {
  let at = start + 1;
  for (;;) {
    const byte = text[at] as number;
    // Digits, and . e E + -
    if (!isDigit(byte) && byte !== 0x2e && byte !== 0x65 && byte !== 0x45 && byte !== 0x2b && byte !== 0x2d) return at;
    at++;
  }
}

/** Tells whether a double holds the number, so that printing the double gives the same decimal value. */
function isExactNumber(text: Buffer, start: number, end: number): boolean {
  if (end - start <= 15 && !hasLargeExponent(text, start, end)) return true;
  if (end - start > maxNumberLength) return false;
  const written = text.toString('latin1', start, end);
  const value = Number(written);
  if (!Number.isFinite(value)) return false;
  const printed = String(value);
  return printed === written || normalizeDecimal(written) === normalizeDecimal(printed);
}

/** Tells whether the exponent is large. With a small one, fifteen digits fit into any double. */
function hasLargeExponent(text: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (((text[at] as number) | 0x20) !== 0x65) continue;
    // Exponents of up to two digits are far from the limits of a double.
    return end - at > 3;
  }
  return false;
}

/** Writes sign, significant digits and exponent, which are equal for two spellings of one value. */
function normalizeDecimal(number: string): string {
  let digits = '';
  let scale = 0;
  let isFraction = false;
  let at = number.charCodeAt(0) === 0x2d ? 1 : 0;
  const sign = at === 1 ? '-' : '';
  for (; at < number.length; at++) {
    const code = number.charCodeAt(at);
    if (code === 0x2e) isFraction = true;
    else if ((code | 0x20) === 0x65) break;
    else {
      if (isFraction) scale--;
      if (code !== 0x30 || digits !== '') digits += number[at];
    }
  }
  if (at < number.length) scale += Number(number.slice(at + 1));
  let end = digits.length;
  while (end > 0 && digits.charCodeAt(end - 1) === 0x30) end--;
  if (end === 0) return '0';
  return `${sign}${digits.slice(0, end)}e${scale + digits.length - end}`;
}
