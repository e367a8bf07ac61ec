// Tasks that belong to a workspace, which a call does not have to name: the client announces where it works, in the handshake
// or, since MCP 2026-07-28, with each request. An argument `workspace` comes first. Without either, the call is refused: the
// handler never guesses, and always has a workspace and its path.
//
//   ORBIT_ROOT=~/src node server.js

import { homedir } from 'node:os';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { resolveWorkspace } from 'ambit-mcp/sdk';
import { createServerSessions, withSessions } from 'ambit-mcp/server';
import { z } from 'zod';

const root = process.env.ORBIT_ROOT ?? join(homedir(), 'src');
// Each folder in the root is a workspace. Clients announce with _meta.orbit.workspace or _meta["orbit.workspace"].
const sessions = createServerSessions({ workspaces: join(root, '*'), announceKeys: ['orbit'] });

// By path, as they are resolved: nothing here depends on the process, its working directory or its environment.
const tasks = new Map();

const workspace = z.string().optional().describe('Slug or absolute path. By default the workspace of your client');

function buildServer() {
  const server = withSessions(new McpServer({ name: 'announced-workspace', version: '1.0.0' }), sessions);
  server.registerTool(
    'task_add',
    { description: 'Adds a task', inputSchema: z.object({ title: z.string().min(1).max(200), workspace }) },
    async (args) => {
      const found = resolveWorkspace({ explicit: args.workspace });
      tasks.set(found.path, [...(tasks.get(found.path) ?? []), args.title]);
      return { content: [{ type: 'text', text: JSON.stringify({ ...found, tasks: tasks.get(found.path) }) }] };
    },
  );
  return server;
}

serveStdio(buildServer);
