import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// A server whose era and tools stand in a file beside it, so that a test can change its mind for it.
const { era = 'both', tools = [] } = JSON.parse(readFileSync(process.env.OFFER, 'utf8'));
const answer = (id, rest) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...rest })}\n`);
const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === 'server/discover' && era !== 'handshake') {
    answer(id, { result: { ...complete, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } } });
  } else if (method === 'initialize' && era !== 'modern') {
    const serverInfo = { name: 'offered', version: '1' };
    answer(id, { result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo } });
  } else if (method === 'tools/list') {
    // A tool a page, so that whoever lists has to turn them.
    const at = Number(params?.cursor ?? 0);
    const nextCursor = at + 1 < tools.length ? { nextCursor: String(at + 1) } : {};
    answer(id, { result: { ...complete, tools: tools.slice(at, at + 1), ...nextCursor } });
  } else answer(id, { error: { code: -32601, message: 'Method not found' } });
});
