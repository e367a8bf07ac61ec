// An HTTP server whose policies and objectives reach the model with the first tool result of each session. It needs no
// gateway: it has its own API keys and its own policy service. The demo keys are pcp_demo_ann and pcp_demo_bo.
// Start it with: PORT=7430 node server.js. PCP_DATA names another file of users and policies.

import { createHash, randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  isLegacyRequest,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { currentSession } from 'ambit-mcp/sdk';
import { createServerSessions, withSessions } from 'ambit-mcp/server';
import { z } from 'zod';

// Read each time, so that a change of the file applies to the next session without a restart.
const readData = async () => JSON.parse(await readFile(process.env.PCP_DATA ?? new URL('data.json', import.meta.url)));

/** The file contains only hashes, so that nobody can read a key there. */
async function identify(key) {
  const hash = createHash('sha256').update(key).digest('hex');
  const user = (await readData()).users.find(({ keyHash }) => keyHash === hash);
  return user && { userId: user.name };
}

/** Users inherit from their team. */
async function resolve(userId) {
  const { teams, users } = await readData();
  const user = users.find(({ name }) => name === userId);
  const team = teams.find(({ name }) => name === user?.team);
  const policiesOf = (owner, inherited) => (owner?.policies ?? []).map((policy) => ({ ...policy, inherited }));
  return {
    policies: [...policiesOf(team, true), ...policiesOf(user, false)],
    objectives: [...(team?.objectives ?? []), ...(user?.objectives ?? [])],
  };
}

const sessions = createServerSessions({ identify, unknownCallers: 'anonymous', governance: { resolve } });
sessions.onEnded(({ id, userId }, reason) => console.error(`session=${id.slice(0, 8)} of ${userId}: ${reason}`));

const input = z.object({ task: z.string() });
const say = (text) => ({ content: [{ type: 'text', text }] });
const ask = (text) => ({ messages: [{ role: 'user', content: { type: 'text', text } }] });

function buildServer() {
  const server = withSessions(new McpServer({ name: 'policy-server', version: '1.0.0' }), sessions);
  server.registerTool('pcp-feature', { inputSchema: input }, ({ task }) => say(`Plan and build: ${task}`));
  server.registerTool('pcp-fix', { inputSchema: input }, ({ task }) => say(`Reproduce and fix: ${task}`));
  server.registerTool('pcp-whoami', {}, () => say(currentSession().userId));
  server.registerPrompt('pcp-review', { argsSchema: input }, ({ task }) => ask(`Review: ${task}`));
  return server;
}

const modern = createMcpHandler(buildServer, { legacy: 'reject' });
const transports = new Map();

/** In the handshake era, each connection is a session of its own. Only the credential that opened it can use it. */
async function handle(request) {
  if (!(await isLegacyRequest(request.clone()))) return modern.fetch(request);
  const nameOf = (id) => `${id} ${request.headers.get('authorization')}`;
  const id = request.headers.get('mcp-session-id');
  if (id !== null) return transports.get(nameOf(id))?.handleRequest(request) ?? new Response(null, { status: 404 });
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (opened) => void transports.set(nameOf(opened), transport),
    onsessionclosed: (closed) => void transports.delete(nameOf(closed)),
  });
  await buildServer().connect(transport);
  return transport.handleRequest(request);
}

const [isLocal, serve] = [localhostHostValidation(), toNodeHandler({ fetch: handle })];
// Without this check, any web page in a browser on this machine could call the tools as an anonymous user.
const http = createServer((request, response) => isLocal(request, response) && serve(request, response));
http.listen(process.env.PORT, '127.0.0.1', () => console.error(`listening on 127.0.0.1:${http.address().port}`));
// The sessions close by themselves when nothing else keeps the process running.
process.once('SIGTERM', () => http.close().closeAllConnections());
