// An MCP server without dependencies, written for the orchestrator Parachute: notes in the folder that it is started in.
// Its environment tells for which session it works. The agent cannot change that, whatever it sends.

import { appendFileSync, existsSync, readFileSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';

const { PARACHUTE_SESSION_ID: session, PARACHUTE_WORKSPACE_ID: workspace, PARACHUTE_TRUST_LEVEL: trust } = process.env;
const file = 'notes.txt';

const tools = {
  add_note({ text }) {
    appendFileSync(file, `${text}\n`);
    return `Kept in ${workspace || 'no workspace'}.`;
  },
  list_notes: () => (existsSync(file) ? readFileSync(file, 'utf8').trimEnd() : 'No notes.'),
  delete_notes() {
    // An unknown trust level is not direct.
    if (trust !== 'direct') throw new Error('Only direct sessions may delete notes.');
    rmSync(file, { force: true });
    return 'Deleted.';
  },
};

const schemas = { add_note: { properties: { text: { type: 'string' } }, required: ['text'] } };

function callTool({ name, arguments: args = {} }) {
  try {
    if (!Object.hasOwn(tools, name)) throw new Error(`There is no tool ${name}.`);
    return { content: [{ type: 'text', text: tools[name](args) }] };
  } catch (error) {
    return { content: [{ type: 'text', text: error.message }], isError: true };
  }
}

const methods = {
  initialize: ({ protocolVersion }) => {
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'vault', version: '1.0.0' } };
  },
  'tools/list': () => {
    return { tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object', ...schemas[name] } })) };
  },
  'tools/call': callTool,
};

// Standard output belongs to the protocol.
if (session) console.error(`session=${session.slice(0, 8)} workspace=${workspace || '(none)'} trust=${trust}`);
else console.error('started without a session');

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const known = Object.hasOwn(methods, method);
  const answer = known ? { result: methods[method](params) } : { error: { code: -32601, message: 'Unknown method' } };
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
});
