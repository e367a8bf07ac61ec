import { isUtf8 } from 'node:buffer';
import { StacklessError } from '../protocol-error.ts';
import { byteAt, decodeString } from './json-strings.ts';

/**
 * A strict JSON scanner over bytes. It checks the whole text but records only the positions of the members that it was
 * asked for. A message can so be read, edited and passed on without parsing and printing it: large integers, key order,
 * escapes and spacing stay as sent.
 */

/** The objects to look into: `{ params: { _meta: {} } }` records the members of params and of params._meta. */
export interface ScanPlan {
  readonly [key: string]: ScanPlan;
}

export interface JsonMember {
  readonly key: string;
  readonly keyStart: number;
  /** The value's bytes are [start, end). */
  readonly start: number;
  readonly end: number;
  /** Set if the plan names this member and its value is an object. */
  readonly shape: ObjectShape | undefined;
}

export interface ObjectShape {
  readonly start: number;
  readonly end: number;
  readonly members: readonly JsonMember[];
}

export class ScanError extends StacklessError {
  constructor(what: string, at: number) {
    super(`${what} at byte ${at}`);
    this.name = 'ScanError';
  }
}

/** The text may be valid JSON, but scanning all of it would block everybody else. */
export class DensityError extends ScanError {}

export const maxDepth = 512;
/** Limit of values in one text; keys do not count. Values, not bytes, determine the cost of a scan. */
export const maxValues = 1 << 20;
/** Limit of keys of one object at any depth, unless fewer are allowed. */
export const maxKeys = 50_000;
/** State of the current scan. A scan is synchronous, so there is only one at a time. */
let valuesAllowed = maxValues;
let valuesLeft = maxValues;

function resetValueLimit(limit = maxValues): void {
  valuesAllowed = limit;
  valuesLeft = limit;
}

export interface ScanLimits {
  readonly maxKeys: number;
  readonly maxValues?: number;
}

const defaultLimits: ScanLimits = { maxKeys };
/** Used for a part of a text that was scanned already. */
const noLimits: ScanLimits = { maxKeys: Infinity };
const noPlan: ScanPlan = Object.freeze(Object.create(null) as ScanPlan);
const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/** Scans the one JSON object in `bytes`, with nothing but white space around it. */
export function scanObject(bytes: Buffer, plan: ScanPlan = noPlan, limits: ScanLimits = defaultLimits): ObjectShape {
  if (!isUtf8(bytes)) throw new ScanError('not UTF-8', 0);
  const start = skipSpace(bytes, 0);
  if (byteAt(bytes, start) !== openBrace) throw new ScanError('expected an object', start);
  resetValueLimit(limits.maxValues);
  const shape = readObject(bytes, start, plan, 1, limits);
  const rest = skipSpace(bytes, shape.end);
  if (rest !== bytes.length) throw new ScanError('unexpected text after the object', rest);
  return shape;
}

/** Scans an entry of a server's list: undefined if it is no object, or exceeds the limits. */
export function scanEntry(bytes: Buffer): ObjectShape | undefined {
  try {
    return scanObject(bytes);
  } catch (error) {
    if (error instanceof ScanError) return undefined;
    throw error;
  }
}

/** Scans the one JSON array in `bytes` and returns its elements as slices. */
export function scanArray(bytes: Buffer, maxElements: number, valueLimit = maxValues): Buffer[] {
  if (!isUtf8(bytes)) throw new ScanError('not UTF-8', 0);
  const open = skipSpace(bytes, 0);
  if (byteAt(bytes, open) !== openBracket) throw new ScanError('expected an array', open);
  const elements: Buffer[] = [];
  resetValueLimit(valueLimit);
  let at = skipSpace(bytes, open + 1);
  if (byteAt(bytes, at) === closeBracket) return elements;
  for (;;) {
    const end = skipValue(bytes, at, 1);
    elements.push(bytes.subarray(at, end));
    if (elements.length > maxElements) throw new ScanError('too many elements', at);
    at = skipSpace(bytes, end);
    if (byteAt(bytes, at) === closeBracket) break;
    if (byteAt(bytes, at) !== comma) throw new ScanError('expected "," or "]"', at);
    at = skipSpace(bytes, at + 1);
  }
  const rest = skipSpace(bytes, at + 1);
  if (rest !== bytes.length) throw new ScanError('unexpected text after the array', rest);
  return elements;
}

/** Reads an object value inside bytes that were scanned already. */
export function readShape(bytes: Buffer, member: JsonMember): ObjectShape | undefined {
  if (member.shape !== undefined) return member.shape;
  resetValueLimit();
  return byteAt(bytes, member.start) === openBrace ? readObject(bytes, member.start, noPlan, 1, noLimits) : undefined;
}

/** Returns the spans of the first `limit` elements of an array, inside bytes that were scanned already. */
export function readElements(bytes: Buffer, member: JsonMember, limit = Infinity): { start: number; end: number }[] {
  const spans: { start: number; end: number }[] = [];
  if (byteAt(bytes, member.start) !== openBracket) return spans;
  resetValueLimit();
  let at = skipSpace(bytes, member.start + 1);
  while (byteAt(bytes, at) !== closeBracket && spans.length < limit) {
    const end = skipValue(bytes, at, 1);
    spans.push({ start: at, end });
    at = skipSpace(bytes, end);
    if (byteAt(bytes, at) === comma) at = skipSpace(bytes, at + 1);
  }
  return spans;
}

/** Whether an array is empty, inside bytes that were scanned already. */
export function isEmptyArray(bytes: Buffer, list: JsonMember): boolean {
  return byteAt(bytes, skipSpace(bytes, list.start + 1)) === closeBracket;
}

export function findMember(shape: ObjectShape | undefined, key: string): JsonMember | undefined {
  if (shape === undefined) return undefined;
  for (const member of shape.members) if (member.key === key) return member;
  return undefined;
}

function readObject(bytes: Buffer, open: number, plan: ScanPlan, depth: number, limits: ScanLimits): ObjectShape {
  if (depth > maxDepth) throw new ScanError('nested too deeply', open);
  const members: JsonMember[] = [];
  let at = skipSpace(bytes, open + 1);
  if (byteAt(bytes, at) === closeBrace) return { start: open, end: at + 1, members };
  for (;;) {
    if (byteAt(bytes, at) !== quote) throw new ScanError('expected a key', at);
    const keyStart = at;
    const keyEnd = skipString(bytes, at);
    const key = decodeString(bytes, keyStart, keyEnd);
    at = skipSpace(bytes, keyEnd);
    if (byteAt(bytes, at) !== colon) throw new ScanError('expected ":"', at);
    const start = skipSpace(bytes, at + 1);
    const inner = byteAt(bytes, start) === openBrace && Object.hasOwn(plan, key) ? plan[key] : undefined;
    const shape = inner === undefined ? undefined : readObject(bytes, start, inner, depth + 1, limits);
    const end = shape === undefined ? skipValue(bytes, start, depth, limits.maxKeys) : shape.end;
    members.push({ key, keyStart, start, end, shape });
    if (members.length > limits.maxKeys) throw tooManyKeysError(limits.maxKeys, keyStart);
    at = skipSpace(bytes, end);
    if (byteAt(bytes, at) === closeBrace) return { start: open, end: at + 1, members };
    if (byteAt(bytes, at) !== comma) throw new ScanError('expected "," or "}"', at);
    at = skipSpace(bytes, at + 1);
  }
}

function skipSpace(bytes: Buffer, at: number): number {
  const { length } = bytes;
  let i = at;
  while (i < length) {
    const byte = bytes[i] as number;
    if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) return i;
    i++;
  }
  return i;
}

// One loop with its own stack of brackets: hostile nesting costs an error, never our call stack. A scan is synchronous,
// so all share one stack.
const brackets = new Uint8Array(maxDepth + 1);
const keyCounts = new Uint32Array(maxDepth + 1);

function skipValue(bytes: Buffer, from: number, depth: number, maxKeys = Infinity): number {
  const first = byteAt(bytes, from);
  if (first === quote) return skipString(bytes, from);
  if (first !== openBrace && first !== openBracket) return skipScalar(bytes, from);
  let open = 0;
  let at = from;
  for (;;) {
    const byte = byteAt(bytes, at);
    if (--valuesLeft < 0) throw new DensityError(`more than ${valuesAllowed} values`, at);
    if (byte === openBrace || byte === openBracket) {
      if (open + depth >= maxDepth) throw new ScanError('nested too deeply', at);
      const close = byte + 2;
      at = skipSpace(bytes, at + 1);
      if (byteAt(bytes, at) !== close) {
        keyCounts[open] = 1;
        brackets[open++] = close;
        if (close === closeBrace) at = skipKey(bytes, at);
        continue;
      }
      at++;
    } else {
      at = byte === quote ? skipString(bytes, at) : skipScalar(bytes, at);
    }
    for (;;) {
      if (open === 0) return at;
      const close = brackets[open - 1] as number;
      at = skipSpace(bytes, at);
      if (byteAt(bytes, at) === close) {
        open--;
        at++;
        continue;
      }
      if (byteAt(bytes, at) !== comma) throw new ScanError(`expected "," or "${String.fromCharCode(close)}"`, at);
      at = skipSpace(bytes, at + 1);
      if (close === closeBrace) {
        at = skipKey(bytes, at);
        const keys = (keyCounts[open - 1] as number) + 1;
        if (keys > maxKeys) throw tooManyKeysError(maxKeys, at);
        keyCounts[open - 1] = keys;
      }
      break;
    }
  }
}

function tooManyKeysError(maxKeys: number, at: number): DensityError {
  return new DensityError(`an object with more than ${maxKeys} keys`, at);
}

function skipKey(bytes: Buffer, from: number): number {
  if (byteAt(bytes, from) !== quote) throw new ScanError('expected a key', from);
  const at = skipSpace(bytes, skipString(bytes, from));
  if (byteAt(bytes, at) !== colon) throw new ScanError('expected ":"', at);
  return skipSpace(bytes, at + 1);
}

function skipString(bytes: Buffer, from: number): number {
  const length = bytes.length;
  let i = from + 1;
  while (i < length) {
    const byte = bytes[i] as number;
    if (byte === quote) return i + 1;
    if (byte === backslash) i = skipEscape(bytes, i);
    else if (byte < 0x20) throw new ScanError('control character in a string', i);
    else i++;
  }
  throw new ScanError('unterminated string', from);
}

function skipEscape(bytes: Buffer, at: number): number {
  const byte = byteAt(bytes, at + 1);
  if (byte === 0x75) {
    for (let i = at + 2; i < at + 6; i++) if (!isHex(byteAt(bytes, i))) throw new ScanError('bad escape', at);
    return at + 6;
  }
  // " \ / b f n r t
  if (
    byte === quote ||
    byte === backslash ||
    byte === 0x2f ||
    byte === 0x62 ||
    byte === 0x66 ||
    byte === 0x6e ||
    byte === 0x72 ||
    byte === 0x74
  ) {
    return at + 2;
  }
  throw new ScanError('bad escape', at);
}

function isHex(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function skipScalar(bytes: Buffer, at: number): number {
  switch (byteAt(bytes, at)) {
    case 0x74:
      return skipWord(bytes, at, 'true');
    case 0x66:
      return skipWord(bytes, at, 'false');
    case 0x6e:
      return skipWord(bytes, at, 'null');
    default:
      return skipNumber(bytes, at);
  }
}

function skipWord(bytes: Buffer, at: number, word: string): number {
  for (let i = 0; i < word.length; i++) {
    if (byteAt(bytes, at + i) !== word.charCodeAt(i)) throw new ScanError('unexpected text', at);
  }
  return at + word.length;
}

function skipNumber(bytes: Buffer, from: number): number {
  let at = from;
  if (byteAt(bytes, at) === 0x2d) at++;
  if (!isDigit(byteAt(bytes, at))) throw new ScanError(at >= bytes.length ? 'unexpected end' : 'unexpected text', from);
  if (byteAt(bytes, at) === 0x30) at++;
  else while (isDigit(byteAt(bytes, at))) at++;
  if (byteAt(bytes, at) === 0x2e) {
    at++;
    if (!isDigit(byteAt(bytes, at))) throw new ScanError('bad number', from);
    while (isDigit(byteAt(bytes, at))) at++;
  }
  if (byteAt(bytes, at) === 0x65 || byteAt(bytes, at) === 0x45) {
    at++;
    if (byteAt(bytes, at) === 0x2b || byteAt(bytes, at) === 0x2d) at++;
    if (!isDigit(byteAt(bytes, at))) throw new ScanError('bad number', from);
    while (isDigit(byteAt(bytes, at))) at++;
  }
  return at;
}

/** Reads the string value of a member; undefined if it holds something else. */
export function readStringValue(bytes: Buffer, member: JsonMember | undefined): string | undefined {
  if (member === undefined || byteAt(bytes, member.start) !== quote) return undefined;
  return decodeString(bytes, member.start, member.end);
}

/** Returns the raw text of a value, as it was sent. */
export function readRawValue(bytes: Buffer, member: { readonly start: number; readonly end: number }): string {
  return bytes.toString('utf8', member.start, member.end);
}
