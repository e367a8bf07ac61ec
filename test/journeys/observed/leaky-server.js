// A server that puts everything it knows on stderr: its environment, and every line it receives.
import { createInterface } from 'node:readline';

process.stderr.write(`leaky ${JSON.stringify(process.env)}\n`);
process.stderr.write(`leaky authorization: Bearer ${process.env.UPSTREAM_TOKEN}\n`);
// Nothing but the name of its variable says that this is a secret.
process.stderr.write(`leaky words ${process.env.PASSPHRASE}\n`);

const tool = { name: 'leak', inputSchema: { type: 'object' } };
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'leaky', version: '1' },
  }),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': (params) => ({ content: [{ type: 'text', text: JSON.stringify(params._meta ?? {}) }] }),
};

createInterface({ input: process.stdin }).on('line', (line) => {
  process.stderr.write(`leaky heard ${line}\n`);
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (params?.arguments?.crash === true) process.exit(3);
  const result = answers[method]?.(params);
  const said = result === undefined ? { error: { code: -32601, message: 'unknown' } } : { result };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...said })}\n`);
});
