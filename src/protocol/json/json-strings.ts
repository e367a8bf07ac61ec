const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/**
 * Strings that occur in nearly every message. Finding one of them in the bytes is much cheaper than creating a new
 * string, and identical strings compare by address.
 */
const commonStrings = [
  ...['jsonrpc', '2.0', 'id', 'method', 'params', 'result', 'error', 'code', 'message', 'data'],
  ...['_meta', 'name', 'arguments', 'uri', 'cursor', 'content', 'structuredContent', 'isError', 'resultType'],
  ...['complete', 'requestState', 'inputResponses', 'inputRequests', 'progressToken', 'progress', 'task', 'taskId'],
  ...['tools', 'resources', 'prompts', 'ttlMs', 'cacheScope', 'protocolVersion', 'capabilities', 'clientInfo'],
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/clientInfo',
  'io.modelcontextprotocol/logLevel',
  '2026-07-28',
  ...['tools/call', 'tools/list', 'resources/read', 'prompts/get', 'notifications/progress', 'ping'],
];

const byLength: { readonly text: string; readonly bytes: Buffer }[][] = [];

for (const text of commonStrings) {
  const bytes = Buffer.from(text, 'latin1');
  for (let length = byLength.length; length <= bytes.length; length++) byLength.push([]);
  byLength[bytes.length]?.push({ text, bytes });
}

/**
 * Returns the byte at a position, −1 behind the end. V8 compiles all reads in a function to slower code once one of them
 * was behind the end of a buffer.
 */
export function byteAt(bytes: Buffer, at: number): number {
  return at < bytes.length ? (bytes[at] as number) : -1;
}

const maxRecentLength = 32;
/** Some short strings that were read before, such as the names of tools. The slot of a string depends on its bytes. */
const recentStrings = new Array<string>(256).fill('');

/**
 * Decodes the string whose quotes lie at `start` and before `end`. It is meant for short strings: to compare them with
 * known ones is faster than to create a new one.
 */
export function decodeString(bytes: Buffer, start: number, end: number): string {
  const known = internString(bytes, start + 1, end - 1);
  if (known !== undefined) return known;
  const length = end - start - 2;
  const isShort = length > 0 && length <= maxRecentLength;
  const slot = isShort ? (length * 31 + byteAt(bytes, start + 1) * 7 + byteAt(bytes, end - 2)) & 0xff : 0;
  const recent = recentStrings[slot] as string;
  if (isShort && equalsAt(recent, length, bytes, start + 1)) return recent;
  const inside = bytes.toString('latin1', start + 1, end - 1);
  for (let i = 0; i < inside.length; i++) {
    const code = inside.charCodeAt(i);
    if (code === backslash || code > 0x7e) return JSON.parse(bytes.toString('utf8', start, end)) as string;
  }
  if (isShort) recentStrings[slot] = inside;
  return inside;
}

/** Tells whether the bytes are this text, which is plain ASCII. */
function equalsAt(text: string, length: number, bytes: Buffer, start: number): boolean {
  if (text.length !== length) return false;
  for (let i = 0; i < length; i++) if (text.charCodeAt(i) !== bytes[start + i]) return false;
  return true;
}

/** Returns the common string at [start, end), if there is one. */
function internString(bytes: Buffer, start: number, end: number): string | undefined {
  const candidates = byLength[end - start];
  if (candidates === undefined) return undefined;
  for (const candidate of candidates) if (matchesAt(candidate.bytes, bytes, start)) return candidate.text;
  return undefined;
}

function matchesAt(word: Buffer, bytes: Buffer, start: number): boolean {
  for (let i = 0; i < word.length; i++) if (word[i] !== bytes[start + i]) return false;
  return true;
}

/**
 * Gets the position of a string, quotes included, and the keys that lead to it, outermost first. For the name of a
 * member, its own key is the last one. The list of keys is reused after the visit.
 */
type VisitString = (start: number, end: number, keys: readonly string[], isKey: boolean) => void;

/** Visits every string in [from, to) of valid JSON, at any depth, in one pass. */
export function walkStrings(bytes: Buffer, from: number, to: number, visit: VisitString): void {
  const keys: string[] = [];
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if (byte === 0x7b) keys.push('');
    else if (byte === 0x7d) keys.pop();
    else if (byte === quote) {
      const end = findStringEnd(bytes, at);
      const isKey = isFollowedByColon(bytes, end);
      if (isKey) keys[keys.length - 1] = decodeStringToken(bytes, at, end);
      visit(at, end, keys, isKey);
      at = end - 1;
    }
  }
}

/** Decodes any string, as `decodeString` does for short ones. */
export function decodeStringToken(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start + 1, end - 1);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

/** Finds the end of the string whose first quote lies at `start`. */
export function findStringEnd(bytes: Buffer, start: number): number {
  let at = start + 1;
  while (bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1;
  return at + 1;
}

/** Whether the string that ends here is the name of a member. */
export function isFollowedByColon(bytes: Buffer, after: number): boolean {
  let at = after;
  while (bytes[at] === 0x20 || bytes[at] === 0x0a || bytes[at] === 0x0d || bytes[at] === 0x09) at++;
  return bytes[at] === colon;
}
