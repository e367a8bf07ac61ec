// A server of the handshake era whose tools are what the file tools.json beside it says at the moment.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const say = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === 'initialize') {
    const serverInfo = { name: 'tools-of-file', version: '1' };
    say(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
  } else if (method === 'tools/list') {
    const tools = JSON.parse(readFileSync(join(import.meta.dirname, 'tools.json'), 'utf8'));
    say(id, { tools: tools.map((tool) => ({ inputSchema: { type: 'object' }, ...tool })) });
  } else if (id !== undefined) say(id, { content: [{ type: 'text', text: 'done' }] });
});
