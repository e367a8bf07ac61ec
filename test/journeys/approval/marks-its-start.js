import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

// Writes down that it was started, before anything else: whatever runs leaves a mark.
appendFileSync(process.env.MARKS, `${process.argv[2] ?? 'plain'}\n`);
const say = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
const tools = ['echo', 'ping', 'leave'];
const complete = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  if (method === 'server/discover') {
    say(id, { ...complete, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } });
  } else if (method === 'tools/list') {
    say(id, { ...complete, tools: tools.map((name) => ({ name, inputSchema: { type: 'object' } })) });
  } else if (method === 'tools/call') {
    say(id, { resultType: 'complete', content: [{ type: 'text', text: 'pong' }] });
    if (JSON.parse(line).params.name === 'leave') setTimeout(() => process.exit(0), 10);
  } else if (id !== undefined) say(id, complete);
});
