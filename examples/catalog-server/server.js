// A catalogue of satellite images: search, filter, export. What one call selects is in the state of the session for the next
// one. Behind Ambit, the same code uses Ambit's session. Start it with: STAC_MCP_PERMISSIONS=catalog:export node server.js

import { setTimeout as wait } from 'node:timers/promises';
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { currentSession, requirePermission } from 'ambit-mcp/sdk';
import { cacheResult, createServerSessions, withSessions } from 'ambit-mcp/server';
import { z } from 'zod';

const items = [
  { id: 'alps-1', collection: 'sentinel-2', cloud: 5 },
  { id: 'alps-2', collection: 'sentinel-2', cloud: 60 },
  { id: 'alps-3', collection: 'sentinel-2', cloud: 20 },
  { id: 'field-1', collection: 'sentinel-2', cloud: 0, owner: 'user-12345' },
];
let lookups = 0;

const idsOf = (found) => found.map(({ id }) => id);
const say = (value) => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });
// Standard output belongs to the protocol. Ambit has cut the ids and removed secrets before it calls this.
const write = (event, fields) => process.stderr.write(`${JSON.stringify({ event, ...fields })}\n`);

function nothingSelected() {
  throw new Error('Nothing is selected: call search_items first.');
}

const sessions = createServerSessions({
  envPrefix: 'STAC_MCP',
  // Without a gateway, whoever starts this process decides what its caller may do.
  local: { permissions: process.env.STAC_MCP_PERMISSIONS?.split(',').filter(Boolean) },
  tools: true,
  log: { info: write, warn: write, debug: write },
});

function buildServer() {
  // Before anything is registered.
  const server = withSessions(new McpServer({ name: 'catalog', version: '1.0.0' }), sessions);

  server.registerTool('search_items', { inputSchema: z.object({ collection: z.string() }) }, async ({ collection }) => {
    const { userId, state } = currentSession();
    const isVisible = (item) => item.collection === collection && (item.owner ?? userId) === userId;
    // A search is repeated often and changes nothing. No other session gets this result: it depends on the user.
    const search = () => ({ found: items.filter(isVisible), lookup: ++lookups });
    const { found, lookup } = await cacheResult(search, { ttlSeconds: 300 });
    await state.set('selection', { found, exported: 0 });
    return say({ found: idsOf(found), lookup });
  });

  server.registerTool('filter_items', { inputSchema: z.object({ maxCloud: z.number() }) }, async ({ maxCloud }) => {
    const keepClear = ({ found } = nothingSelected()) => found.filter(({ cloud }) => cloud <= maxCloud);
    const change = (selection) => ({ found: keepClear(selection), exported: 0 });
    return say({ left: idsOf((await currentSession().state.update('selection', change)).value.found) });
  });

  const exporting = z.object({ pauseSeconds: z.number().default(0) });
  server.registerTool('export_items', { inputSchema: exporting }, async ({ pauseSeconds }, { mcpReq }) => {
    requirePermission('catalog:export');
    const { state, signal, sessionId } = currentSession();
    const { found, exported } = (await state.get('selection'))?.value ?? nothingSelected();
    const { progressToken } = mcpReq._meta ?? {};
    signal.addEventListener('abort', () => write('export stopped', { session: sessionId.slice(0, 8) }));
    for (let progress = exported + 1; progress <= found.length; progress++) {
      // After each item: if the caller cancels, its next export goes on from here.
      await state.set('selection', { found, exported: progress });
      const params = { progressToken, progress, total: found.length };
      if (progressToken !== undefined) await mcpReq.notify({ method: 'notifications/progress', params });
      // The archive gets a rest. With the signal, work for a caller or a session that is gone stops at once.
      await wait(pauseSeconds * 1000, undefined, { signal });
    }
    await state.delete('selection');
    return say({ exported: idsOf(found.slice(exported)) });
  });

  // Behind Ambit, `record` is undefined: Ambit keeps it, and shows it with its own session_info.
  server.registerTool('show_session', {}, async () => say({ ...currentSession(), record: currentSession().record }));
  return server;
}

serveStdio(buildServer);
