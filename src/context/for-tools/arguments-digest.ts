import { hash } from 'node:crypto';
import { countMembers } from './survey-json.ts';

/** SHA-256 over `{}`: what a request without arguments is bound to. */
export const noArgumentsDigest = hash('sha256', '{}', 'hex');

/**
 * Lower-case hex SHA-256 over RFC 8785 of a JSON text, or undefined where RFC 8785 cannot hold what it says: numbers
 * that a double does not keep, text that is no Unicode, a name twice. `text` is valid JSON.
 */
export function argumentsDigest(text: Buffer): string | undefined {
  if (isCanonical(text)) return hash('sha256', text, 'hex');
  const members = countMembers(text);
  if (members === undefined) return undefined;
  const printed = printCanonically(JSON.parse(text.toString('utf8')));
  // A name met twice is lost in the value, and with it what the other reader may see.
  return printed.members === members ? hash('sha256', printed.text, 'hex') : undefined;
}

/** RFC 8785 of what `JSON.parse` made, and how many members that has. */
function printCanonically(value: unknown): { readonly text: string; readonly members: number } {
  let text = '';
  let members = 0;

  function print(item: unknown): void {
    if (Array.isArray(item)) {
      let separator = '[';
      for (const inner of item) {
        text += separator;
        separator = ',';
        print(inner);
      }
      text += item.length === 0 ? '[]' : ']';
    } else if (typeof item === 'object' && item !== null) printObject(item as Record<string, unknown>);
    else text += typeof item === 'string' ? quoted(item) : String(item);
  }

  function printObject(item: Readonly<Record<string, unknown>>): void {
    // By UTF-16 code units, which is what sort() does by itself. Own keys only: "__proto__" may be one of them.
    const keys = Object.keys(item).sort();
    members += keys.length;
    let separator = '{';
    for (const key of keys) {
      text += `${separator}${quoted(key)}:`;
      separator = ',';
      print(item[key]);
    }
    text += keys.length === 0 ? '{}' : '}';
  }

  print(value);
  return { text, members };
}

const plain = /^[ !#-[\]-~]{0,64}$/;

/** A short text that needs no escape is quoted faster than by a call of JSON. */
function quoted(text: string): string {
  return plain.test(text) ? `"${text}"` : JSON.stringify(text);
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
