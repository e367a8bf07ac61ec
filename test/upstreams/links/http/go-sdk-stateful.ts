import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/**
 * A server that answers as the Go SDK with sessions and without an event store does: it closes the stream of the tool
 * `leaves` without an event id, and refuses methods that it does not have in plain text.
 */
export async function startGoServer(): Promise<{ readonly url: string; close(): void }> {
  const server: Server = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method, params } = JSON.parse(await text(request));
    if (id === undefined) return void response.writeHead(202).end();
    if (method === 'tools/call') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      return void response.end('event: close\nretry: 10\ndata: \n\n');
    }
    const { protocolVersion } = params ?? {};
    const opened = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'go', version: '1' } };
    const tools = [{ name: 'leaves', inputSchema: { type: 'object' } }];
    const known: Record<string, unknown> = { initialize: opened, 'tools/list': { tools } };
    if (known[method] === undefined) {
      const refusal = `JSON RPC not handled: ${JSON.stringify(method)} unsupported\n`;
      const headers = { 'content-type': 'text/plain; charset=utf-8', 'content-length': refusal.length };
      return void response.writeHead(400, headers).end(refusal);
    }
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result: known[method] }));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
