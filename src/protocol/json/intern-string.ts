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

/** Returns the common string at [start, end), if there is one. */
export function internString(bytes: Buffer, start: number, end: number): string | undefined {
  const candidates = byLength[end - start];
  if (candidates === undefined) return undefined;
  for (const candidate of candidates) if (matchesAt(candidate.bytes, bytes, start)) return candidate.text;
  return undefined;
}

function matchesAt(word: Buffer, bytes: Buffer, start: number): boolean {
  for (let i = 0; i < word.length; i++) if (word[i] !== bytes[start + i]) return false;
  return true;
}
