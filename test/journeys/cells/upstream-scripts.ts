import { nothing, type Script, steps } from '../clients/checks/upstream-scripts.ts';

export const memory: Script = {
  ...nothing,
  resources: { uri: 'memory://knowledge-graph', says: 'wrote the first program' },
  subscribe: {
    uri: 'memory://knowledge-graph',
    change: { tool: 'create_entities', args: { entities: [{ name: 'Bob', entityType: 'person', observations: [] }] } },
  },
  tools: ['create_entities', 'read_graph', 'search_nodes'],
  call: { tool: 'search_nodes', args: { query: 'Ada' }, says: 'wrote the first program' },
};

export const thinking: Script = {
  ...nothing,
  tools: ['sequentialthinking'],
  call: {
    tool: 'sequentialthinking',
    args: { thought: 'Hm.', nextThoughtNeeded: false, thoughtNumber: 3, totalThoughts: 3 },
    says: '"totalThoughts": 3',
  },
};

/** The servers in ./servers, which say the same things with different frameworks. */
export const framework = (scheme: string): Script => ({
  tools: ['add', 'steps', 'asks', 'thinks', 'grows'],
  call: { tool: 'add', args: { a: 2, b: 40 }, says: '2 + 40 = 42' },
  progress: { tool: 'steps', steps: steps([1, 2, 3], 3) },
  cancel: { tool: 'steps' },
  logging: { tool: 'logs', lines: ['one', 'two', 'three'] },
  resources: { uri: `${scheme}://note`, says: 'a note' },
  templates: { template: `${scheme}://page/{number}`, uri: `${scheme}://page/7`, says: 'page 7' },
  subscribe: { uri: `${scheme}://note`, change: { tool: 'touches' } },
  prompts: { name: 'weather', args: { city: 'Turin' }, says: 'The weather in Turin?' },
  completion: { prompt: 'weather', argument: 'city', value: 'Par', says: ['Paris', 'Parma'] },
  elicitation: { tool: 'asks', says: 'You are Ada' },
  sampling: { tool: 'thinks', says: 'I heard <Say it back>' },
  roots: { tool: 'roots', keeps: false },
  listChanged: { tool: 'grows', method: 'notifications/resources/list_changed' },
});

export const fast: Script = {
  ...framework('fast'),
  // FastMCP keeps the level it was told, and logs all the same.
  logging: { tool: 'logs', lines: ['one', 'two', 'three'], always: true },
  roots: { tool: 'roots', keeps: true },
};

export const tinyModern: Script = {
  ...framework('tiny'),
  roots: 'tmcp requests roots only from handshake-era clients.',
};

const unbuilt = 'mcp-lite answers that the method is not implemented.';

export const lite: Script = {
  ...framework('lite'),
  logging: 'mcp-lite accepts a log level but cannot send log messages.',
  subscribe: unbuilt,
  completion: unbuilt,
  roots: 'mcp-lite cannot request roots.',
  listChanged: { tool: 'grows', method: 'notifications/tools/list_changed' },
};
