import { hash } from 'node:crypto';
import { canonicalJson } from '../canonical-json.ts';

/** SHA-256 over `{}`: what a request without arguments is bound to. */
export const noArgumentsDigest = hash('sha256', '{}', 'hex');

/**
 * Lower-case hex SHA-256 over RFC 8785 of a JSON text, or undefined where RFC 8785 cannot hold what it says: numbers
 * that a double does not keep, text that is no Unicode, a name twice. `text` is valid JSON.
 */
export function argumentsDigest(text: Buffer): string | undefined {
  if (isCanonical(text)) return hash('sha256', text, 'hex');
  const source = text.toString('utf8');
  if (!keepsNumbers(source) || hasLoneSurrogate(source)) return undefined;
  const value: unknown = JSON.parse(source);
  // A name met twice is lost in the value, and with it what the other reader may see.
  if (countMembers(value) !== countColons(source)) return undefined;
  return hash('sha256', canonicalJson(value), 'hex');
}

const quote = 0x22;
const colon = 0x3a;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/**
 * True for the plain case, one flat object of simple values in the right order and without spaces: it is its own
 * canonical form, and need not be parsed to be hashed.
 */
function isCanonical(text: Buffer): boolean {
  const last = text.length - 1;
  if (text[0] !== openBrace || text[last] !== closeBrace) return false;
  if (last === 1) return true;
  let at = 1;
  let previousStart = -1;
  let previousEnd = -1;
  for (;;) {
    const keyStart = at;
    const keyEnd = simpleString(text, at);
    if (keyEnd === -1 || text[keyEnd] !== colon) return false;
    if (previousStart !== -1 && !isBefore(text, previousStart, previousEnd, keyStart, keyEnd)) return false;
    previousStart = keyStart;
    previousEnd = keyEnd;
    at = simpleValue(text, keyEnd + 1);
    if (at === -1) return false;
    if (at === last) return true;
    if (text[at] !== comma) return false;
    at++;
  }
}

/** The end of a string of printable ASCII without escapes; -1 for any other. */
function simpleString(text: Buffer, at: number): number {
  if (text[at] !== quote) return -1;
  for (let i = at + 1; i < text.length; i++) {
    const byte = text[i] as number;
    if (byte === quote) return i + 1;
    if (byte < 0x20 || byte > 0x7e || byte === 0x5c) return -1;
  }
  return -1;
}

function simpleValue(text: Buffer, at: number): number {
  const first = text[at] as number;
  if (first === quote) return simpleString(text, at);
  if (first === 0x74 || first === 0x6e) return at + 4;
  if (first === 0x66) return at + 5;
  if (first < 0x31 || first > 0x39) return -1;
  let end = at + 1;
  while (end < text.length && (text[end] as number) >= 0x30 && (text[end] as number) <= 0x39) end++;
  return end - at <= 15 && (text[end] === comma || text[end] === closeBrace) ? end : -1;
}

/** Strictly: of two equal names neither comes first. */
function isBefore(text: Buffer, aStart: number, aEnd: number, bStart: number, bEnd: number): boolean {
  for (let i = 1; ; i++) {
    if (bStart + i >= bEnd - 1) return false;
    if (aStart + i >= aEnd - 1) return true;
    const a = text[aStart + i] as number;
    const b = text[bStart + i] as number;
    if (a !== b) return a < b;
  }
}

const strings = /"(?:[^"\\]|\\.)*"/gs;

/** A number is kept when printing its double names the same decimal value again. */
function keepsNumbers(source: string): boolean {
  const numbers = source.replace(strings, ' ').match(/-?\d[\d.eE+-]*/g) ?? [];
  return numbers.every((written) => {
    // Fifteen digits fit into any double: only longer ones, and those with an exponent, have to be looked at.
    if (written.length <= 15 && !/[eE]/.test(written)) return true;
    // No double needs more to be written exactly as itself. What is longer is compared as text, not by its value.
    if (written.length > longestNumber) return false;
    const value = Number(written);
    return Number.isFinite(value) && decimalOf(written) === decimalOf(String(value));
  });
}

const longestNumber = 40;

/** Sign, significant digits and exponent: equal for two texts of one decimal value. */
function decimalOf(number: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  if (significant === '') return '0';
  const scale = Number(exponent) - fraction.length + (digits.length - significant.length);
  return `${sign}${significant}e${scale}`;
}

/** Half a pair is the only thing above ASCII that JSON.stringify escapes; a backslash that is text comes twice. */
const escapedSurrogate = /(?:^|[^\\])(?:\\\\)*\\ud[89a-f]/;

function hasLoneSurrogate(source: string): boolean {
  return /\\u[dD][89a-fA-F]/.test(source) && escapedSurrogate.test(JSON.stringify(JSON.parse(source)));
}

function countMembers(value: unknown): number {
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + countMembers(item), 0);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, item) => sum + 1 + countMembers(item), 0);
}

function countColons(source: string): number {
  return source.replace(strings, '').split(':').length - 1;
}
