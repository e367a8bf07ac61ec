// File tools for agents that work on several tasks. Each task has a session with a name and a folder of its own, and the
// tools take the session as an argument: session_edit_file({ session: "task#049", path: "src/app.js", … }). No path leads
// out of that folder. The process itself is in a session without a workspace, so a call that names no task has no files.
// Other processes and the next start find the sessions in AMBIT_SESSION_STORE_DIR, which must lie outside of TASKS_DIR.
//
//   TASKS_DIR=~/tasks AMBIT_SESSION_STORE_DIR=~/.tasks node server.js

import { mkdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { createServerSessions, isAmbitError, withSessions } from 'ambit-mcp/server';
import { z } from 'zod';

const root = process.env.TASKS_DIR ?? join(homedir(), 'tasks');
const day = 24 * 60 * 60;

// Standard output belongs to the protocol. At debug there is a line for every path that a tool was given.
const write = (event, fields) => process.stderr.write(`${JSON.stringify({ event, ...fields })}\n`);

const sessions = createServerSessions({
  // Each folder in the root is a workspace, also one that is made later.
  workspaces: join(root, '*'),
  // "database" keeps the files in the store instead: the tools stay the same.
  files: { backend: process.env.TASKS_BACKEND ?? 'local' },
  tools: true,
  // A direct session reaches all sessions of its user; a sandboxed one only its descendants.
  local: { trustLevel: 'direct' },
  // A task may rest for a day, and lasts a week at most.
  ttlSeconds: day,
  maxLifetimeSeconds: 7 * day,
  log: { info: write, warn: write, debug: write },
});

const server = withSessions(new McpServer({ name: 'task-files', version: '1.0.0' }), sessions);

server.registerTool(
  'start_task',
  {
    description:
      'Opens the session of a task, with a folder of its own. The session_* tools take its name as "session".',
    inputSchema: {
      task: z
        .string()
        .regex(/^\d{1,6}$/)
        .describe('Number of the task, such as "049"'),
    },
  },
  async ({ task }) => {
    const [name, workspaceId] = [`task#${task}`, `task-${task}`];
    await mkdir(join(root, workspaceId), { recursive: true });
    const isNew = await sessions.open({ name, workspaceId }).then(
      () => true,
      (error) => {
        if (isAmbitError(error) && error.code === 'SESSION_EXISTS') return false;
        throw error;
      },
    );
    const text = `${isNew ? 'Started' : 'Continuing'} ${name}. Pass "session": "${name}" to the session_* tools.`;
    return { content: [{ type: 'text', text }] };
  },
);

await server.connect(new StdioServerTransport());
