// The server behind every subject: blocking reads and writes, because an event loop here would be measured too.
import { readSync, writeSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';

const MODERN = '2026-07-28';
const VERSION_KEY = 'io.modelcontextprotocol/protocolVersion';
const serverInfo = { name: 'trivial', version: '1.0.0' };
const capabilities = { tools: {} };
const cache = { ttlMs: 0, cacheScope: 'private' };
const echo = {
  name: 'echo',
  description: 'Answers with the text it was given.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
};

const methods = {
  initialize: (params) => ({ protocolVersion: params.protocolVersion, capabilities, serverInfo }),
  'server/discover': () => ({ supportedVersions: [MODERN], capabilities, ...cache }),
  'tools/list': (_params, modern) => (modern ? { tools: [echo], ...cache } : { tools: [echo] }),
  'tools/call': (params) => ({ content: [{ type: 'text', text: params.arguments.text }] }),
  ping: () => ({}),
};

function answer(line) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined || method === undefined) return;
  const modern = method === 'server/discover' || params?._meta?.[VERSION_KEY] !== undefined;
  const result = methods[method]?.(params, modern);
  if (result && modern) result.resultType = 'complete';
  const outcome = result ? { result } : { error: { code: -32601, message: 'Method not found' } };
  writeSync(1, `${JSON.stringify({ jsonrpc: '2.0', id, ...outcome })}\n`);
}

const chunk = Buffer.allocUnsafe(65536);
const decoder = new StringDecoder('utf8');
let rest = '';
for (let size = readSync(0, chunk); size > 0; size = readSync(0, chunk)) {
  rest += decoder.write(chunk.subarray(0, size));
  for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n')) {
    const line = rest.slice(0, end);
    rest = rest.slice(end + 1);
    if (line !== '') answer(line);
  }
}
