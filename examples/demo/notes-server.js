// A small MCP server of both eras: notes kept in a file of the workspace it was started in.
import { appendFile, readFile } from 'node:fs/promises';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const file = 'notes.txt';

async function readNotes() {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line !== '');
}

function buildServer() {
  const server = new McpServer({ name: 'notes', version: '1.0.0' });
  server.registerTool(
    'add_note',
    { description: 'Keeps a note in the workspace', inputSchema: z.object({ text: z.string().min(1).max(500) }) },
    async ({ text }) => {
      await appendFile(file, `${text.replaceAll('\n', ' ')}\n`);
      return { content: [{ type: 'text', text: `Kept. There are ${(await readNotes()).length} notes now.` }] };
    },
  );
  server.registerTool(
    'list_notes',
    { description: 'All notes of the workspace', inputSchema: z.object({}) },
    async () => ({ content: [{ type: 'text', text: (await readNotes()).join('\n') || 'No notes yet.' }] }),
  );
  return server;
}

serveStdio(buildServer);
