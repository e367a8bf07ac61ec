// An MCP server of the modern era whose only tool takes memory until somebody stops it.
import { createInterface } from 'node:readline';

const kept = [];
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'server/discover') {
    const result = {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      serverInfo: { name: 'greedy', version: '1' },
      ttlMs: 0,
      cacheScope: 'private',
    };
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
  } else if (method === 'tools/call' && params.name === 'eat') {
    setInterval(() => kept.push(Buffer.alloc(32 << 20, 1)), 20);
  }
}
