// An MCP server on stdio without dependencies, to be copied: notes in the folder `notes` of the working directory.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

const folder = 'notes';
const path = { type: 'string', description: 'Such as shopping or garden/beans' };
const tools = {
  list_notes: {
    description: 'The names of all notes',
    parameters: {},
    run: () => readdirSync(folder, { recursive: true }).join('\n') || 'No notes yet.',
  },
  read_note: {
    description: 'The text of a note',
    parameters: { path },
    run: (args) => readFileSync(locateNote(args.path), 'utf8'),
  },
  write_note: {
    description: 'Keeps a note',
    parameters: { path, text: { type: 'string' } },
    run({ path: name, text }) {
      const file = locateNote(name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
      return `Kept ${name}.`;
    },
  },
  delete_note: {
    description: 'Removes a note',
    parameters: { path },
    run({ path: name }) {
      rmSync(locateNote(name));
      return `Removed ${name}.`;
    },
  },
};

function locateNote(name) {
  if (!/^[\w-]+(?:\/[\w-]+)*$/.test(name)) throw new Error('path takes letters, digits, - and _, with / between names');
  return join(folder, name);
}

function callTool({ name, arguments: args = {} }) {
  try {
    mkdirSync(folder, { recursive: true });
    return { content: [{ type: 'text', text: tools[name].run(args) }] };
  } catch (error) {
    return { content: [{ type: 'text', text: error.message }], isError: true };
  }
}

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'notes', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({
    tools: Object.entries(tools).map(([name, { description, parameters }]) => {
      const inputSchema = { type: 'object', properties: parameters, required: Object.keys(parameters) };
      return { name, description, inputSchema };
    }),
  }),
  'tools/call': callTool,
};

createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const answer = Object.hasOwn(methods, method)
    ? { result: methods[method](params) }
    : { error: { code: -32601, message: `There is no method ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
});
