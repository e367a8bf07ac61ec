#!/usr/bin/env node
// A package of one file, an MCP server of the handshake era: its only tool tells what it was started with, and what it is.
const { readFileSync } = require('node:fs');
const { createInterface } = require('node:readline');

const { version } = JSON.parse(readFileSync(`${__dirname}/package.json`, 'utf8'));
const answers = {
  initialize: ({ protocolVersion }) => {
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'tells-environment', version } };
  },
  'tools/call': () => {
    const told = { env: process.env, args: process.argv.slice(2), version };
    return { content: [{ type: 'text', text: JSON.stringify(told) }] };
  },
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = answers[method];
  const said = answer ? { result: answer(params) } : { error: { code: -32601, message: 'Method not found' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...said })}\n`);
});
