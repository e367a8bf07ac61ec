// An orchestrator in TypeScript, with the gateway in its own process. It opens a session for a workspace and a trust level,
// runs an agent with the token of the session, and ends the session.
//
//   node orchestrator.mjs my-project sandboxed

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createGateway } from 'ambit-mcp';

/** Stands for your agent. It gets the address of the gateway and the token of one session, and nothing else. */
async function runAgent(url: string, token: string): Promise<void> {
  const client = new Client({ name: 'agent', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));

  async function callTool(name: string, args: Record<string, unknown> = {}): Promise<void> {
    const { content } = await client.callTool({ name: `vault__${name}`, arguments: args });
    console.log(`agent: ${name}:`, content[0]?.type === 'text' ? content[0].text : content);
  }
  await callTool('add_note', { text: 'Water the beans.' });
  await callTool('delete_notes');
  await client.close();
}

const workspaceId = process.argv[2] ?? 'my-project';
const trustLevel = process.argv[3] === 'direct' ? 'direct' : 'sandboxed';

const gateway = await createGateway({
  config: 'ambit.yaml',
  dataDir: 'data',
  log: {
    info() {},
    warn: (event, fields) => console.error(event, fields),
    // One line for each process that starts. The id of the session is cut to eight characters.
    debug(event, { server, session, workspace, trust } = {}) {
      if (event !== 'context injected') return;
      console.log(`${server}: session=${session} workspace=${workspace} trust=${trust}`);
    },
  },
});

try {
  const { url } = await gateway.listen({ port: 0 });
  // More trust than the configuration allows is refused, and so is an unknown workspace.
  const session = await gateway.createSession({ workspaceId, trustLevel, userId: 'ada', agentId: 'coder' });
  try {
    const { servers } = await gateway.resolve(session.id);
    for (const each of servers) console.log(`${each.name}: ${each.available ? 'available' : each.reason}`);
    await runAgent(`${url}/mcp`, session.token);
  } finally {
    // This also ends the server processes of the session.
    await gateway.endSession(session.id);
  }
  await runAgent(`${url}/mcp`, session.token).catch((error: Error) => console.log(`after the end: ${error.message}`));
} finally {
  await gateway.close();
}
