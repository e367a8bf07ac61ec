// An MCP server that writes one text wherever a server can write: tools, results, errors, notifications and stderr.
//   node hostile-server.js FILE-WITH-THE-TEXT
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const text = readFileSync(process.argv[2], 'utf8');
const long = `${text} ${'0123456789'.repeat(100_000)}`;
const inputSchema = {
  type: 'object',
  title: text,
  properties: { [text]: { type: 'string', description: text, enum: [text] } },
};
const tools = [
  { name: 'say', title: text, description: text, inputSchema },
  { name: `say ${text.slice(0, 60)}`, description: long.slice(0, 20_000), inputSchema },
];
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {}, logging: {} },
    serverInfo: { name: text, title: text, version: text },
    instructions: text,
  }),
  'tools/list': () => ({ tools }),
  'tools/call': ({ name }) => ({
    content: [{ type: 'text', text: name === 'say' ? long : text }],
    isError: name !== 'say',
  }),
};

process.stderr.write(`${text}\n${long}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const result = answers[method]?.(params);
  const error = { code: -32601, message: text, data: { text } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) })}\n`);
}
