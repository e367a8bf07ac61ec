import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

interface PollingServer {
  readonly url: string;
  /** The event ids that streams were resumed after; undefined for a stream from its beginning. */
  readonly resumed: (string | undefined)[];
  readonly received: string[];
  close(): void;
}

/**
 * A server that closes the stream of a call early and goes on when the client resumes it, as those of the TypeScript,
 * Python and Go SDKs with an event store do (SEP-1699). Its tools: `slow` (closes twice), `breaks` (cuts the connection
 * inside an event), `forgets` (cannot resume), `silent` (never answers), `primes` (begins the resumed stream with an event
 * without data, as the Python SDK does), `patient` (asks the client to come back after a minute).
 */
export async function startPollingServer(): Promise<PollingServer> {
  const resumed: PollingServer['resumed'] = [];
  const received: string[] = [];
  const server: Server = createServer(async (request, response) => {
    if (request.method === 'GET') return resume(request, response);
    if (request.method !== 'POST') return void response.writeHead(200).end();
    const { id, method, params } = JSON.parse(await text(request));
    received.push(method === 'tools/call' ? params.name : method);
    if (id === undefined) return void response.writeHead(202).end();
    if (method !== 'tools/call') {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' });
      const capabilities = { tools: {} };
      const { protocolVersion } = params ?? {};
      const opened = { protocolVersion, capabilities, serverInfo: { name: 'polling', version: '1' } };
      const tools = ['slow', 'breaks', 'forgets', 'silent', 'primes', 'patient'].map((name) => ({
        name,
        inputSchema: { type: 'object' },
      }));
      const known: Record<string, unknown> = { initialize: opened, 'tools/list': { tools } };
      const error = { code: -32601, message: 'unknown' };
      const outcome = known[method] === undefined ? { error } : { result: known[method] };
      return void response.end(JSON.stringify({ jsonrpc: '2.0', id, ...outcome }));
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    // The priming event: an id before there is anything to say.
    const retryMs = params.name === 'patient' ? 60_000 : 1;
    response.write(`id: ${params.name}/${id}/0\nretry: ${retryMs}\ndata: \n\n`);
    response.write(progress(params._meta?.progressToken, 1));
    if (params.name !== 'breaks') return void response.end();
    response.write(`id: breaks/${id}/lost\ndata: {"jsonrpc"`, () => response.destroy());
  }).listen(0, '127.0.0.1');

  function resume(request: IncomingMessage, response: ServerResponse): void {
    const after = request.headers['last-event-id'] as string | undefined;
    resumed.push(after);
    if (after === undefined) return void response.writeHead(405).end();
    const [name, id, part] = after.split('/');
    if (name === 'forgets' || request.headers['mcp-session-id'] !== 's') return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    if (name === 'silent') return void response.flushHeaders();
    if (name === 'slow' && part === '0')
      return void response.end(`id: slow/${id}/1\nretry: 1\n\n${progress(Number(id), 2)}`);
    if (name === 'primes') response.write(`id: primes/${id}/1\ndata: \nretry: 1\n\n`);
    const result = { content: [{ type: 'text', text: `${name} done` }] };
    response.end(`id: ${name}/${id}/2\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: Number(id), result })}\n\n`);
  }

  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    resumed,
    received,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function progress(progressToken: unknown, value: number): string {
  if (progressToken === undefined) return '';
  const params = { progressToken, progress: value };
  return `data: ${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params })}\n\n`;
}
