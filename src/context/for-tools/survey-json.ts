const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
/** No double needs more to be written exactly as itself. What is longer is compared as text, not by its value. */
const longestNumber = 40;

/**
 * Looks once over a JSON text, which is known to be valid, and builds nothing. The number of its members, a name that
 * comes twice counted twice; undefined where a number is not kept by a double, or a text is no Unicode.
 */
export function countMembers(text: Buffer): number | undefined {
  let members = 0;
  for (let at = 0; at < text.length; ) {
    const byte = text[at] as number;
    if (byte === quote) {
      at = endOfString(text, at);
      if (at === -1) return undefined;
    } else if (byte === 0x2d || isDigit(byte)) {
      const end = endOfNumber(text, at);
      if (!keepsNumber(text, at, end)) return undefined;
      at = end;
    } else {
      if (byte === colon) members++;
      at++;
    }
  }
  return members;
}

/** -1 where half of a surrogate pair is written in it. */
function endOfString(text: Buffer, start: number): number {
  let at = start + 1;
  for (;;) {
    const byte = text[at];
    if (byte === quote || byte === undefined) return at + 1;
    if (byte !== backslash) at++;
    else if (text[at + 1] !== 0x75) at += 2;
    else {
      const half = halfAt(text, at);
      if (half === 'second' || (half === 'first' && halfAt(text, at + 6) !== 'second')) return -1;
      at += half === 'first' ? 12 : 6;
    }
  }
}

/** Which half of a surrogate pair the escape at this place stands for, if there is one. */
function halfAt(text: Buffer, at: number): 'first' | 'second' | undefined {
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

/** A number is kept when printing its double names the same decimal value again. */
function keepsNumber(text: Buffer, start: number, end: number): boolean {
  if (end - start <= 15 && !hasLargeExponent(text, start, end)) return true;
  if (end - start > longestNumber) return false;
  const written = text.toString('latin1', start, end);
  const value = Number(written);
  if (!Number.isFinite(value)) return false;
  const printed = String(value);
  return printed === written || decimalOf(written) === decimalOf(printed);
}

/** Fifteen digits fit into any double whose exponent is not near the bounds of what it holds. */
function hasLargeExponent(text: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (((text[at] as number) | 0x20) !== 0x65) continue;
    // Two digits are far from those bounds.
    return end - at > 3;
  }
  return false;
}

/** Sign, significant digits and exponent: equal for two texts of one decimal value. */
function decimalOf(number: string): string {
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
