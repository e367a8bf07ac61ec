// An MCP server that knows who calls it: it logs the session, answers for its workspace only, and keeps what destroys
// for direct sessions. It speaks both eras, and it works without Ambit too.

import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { currentSession, requireTrust, resolveWorkspace, secureServer } from 'ambit-mcp/sdk';
import { z } from 'zod';

const notes = new Map([
  ['garden', ['Water the beans.']],
  ['kitchen', ['Buy flour.']],
]);

// Standard output belongs to the protocol.
const log = { info: (line) => process.stderr.write(`who-calls: ${line}\n`) };

function describe({ status, sessionId, workspaceId, trustLevel }) {
  const session = sessionId?.slice(0, 8) ?? 'unknown';
  return `session=${session} workspace=${workspaceId ?? '-'} trust=${trustLevel ?? 'unknown'} (${status})`;
}

/** Behind Ambit a session sees its own workspace. Alone, there is nothing to keep apart: the caller may name any. */
function workspaceOf(explicit) {
  const allowed = (name, context) => context.status === 'absent' && notes.has(name);
  return resolveWorkspace({ explicit, allowed, log }).workspace;
}

const say = (text) => ({ content: [{ type: 'text', text }] });

const workspace = z.string().optional().describe('By default the workspace of your session');

function buildServer() {
  const server = secureServer(new McpServer({ name: 'who-calls', version: '1.0.0' }));
  server.registerTool(
    'list_notes',
    { description: 'The notes of a workspace', inputSchema: z.object({ workspace }) },
    async (args) => {
      log.info(`list_notes ${describe(currentSession())}`);
      return say((notes.get(workspaceOf(args.workspace)) ?? []).join('\n') || 'No notes.');
    },
  );
  server.registerTool(
    'add_note',
    { description: 'Keeps a note', inputSchema: z.object({ text: z.string().min(1).max(500), workspace }) },
    async (args) => {
      const name = workspaceOf(args.workspace);
      notes.set(name, [...(notes.get(name) ?? []), args.text]);
      return say(`Kept in ${name}.`);
    },
  );
  server.registerTool(
    'delete_all_notes',
    {
      description: 'Deletes the notes of a workspace; for direct sessions only',
      annotations: { destructiveHint: true },
      inputSchema: z.object({ workspace }),
    },
    async (args) => {
      requireTrust('direct');
      const name = workspaceOf(args.workspace);
      notes.delete(name);
      return say(`Deleted the notes of ${name}.`);
    },
  );
  return server;
}

const started = currentSession();
log.info(started.status === 'absent' ? `started without a session: ${started.reason}` : describe(started));
serveStdio(buildServer);
