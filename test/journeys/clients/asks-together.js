import { inputRequired, inputResponse, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

/** A server whose tool asks its question only when a second call is under way too. */
function build() {
  const server = new McpServer({ name: 'asks-together', version: '1.0.0' });
  const inputSchema = z.object({ name: z.string() });
  const waiting = [];
  server.registerTool('ask', { description: 'Asks for a sample', inputSchema }, async ({ name }, ctx) => {
    if (inputResponse(ctx.mcpReq.inputResponses, 'q').kind === 'sampling')
      return { content: [{ type: 'text', text: name }] };
    await new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 2) for (const go of waiting) go();
    });
    const messages = [{ role: 'user', content: { type: 'text', text: name } }];
    return inputRequired({ inputRequests: { q: inputRequired.createMessage({ messages, maxTokens: 5 }) } });
  });
  return server;
}

serveStdio(build);
