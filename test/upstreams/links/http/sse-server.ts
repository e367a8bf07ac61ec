import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** A message that was posted, with the stream it belongs to and its headers. */
interface Posted {
  readonly stream: string;
  readonly method: string | undefined;
  readonly params: Readonly<Record<string, unknown>> | undefined;
  readonly headers: IncomingMessage['headers'];
}

interface SseServer {
  readonly origin: string;
  readonly posted: Posted[];
  /** The method and path of each request. */
  readonly requests: string[];
  /** Cuts all streams and forgets them, as a restart does. */
  restart(): void;
  close(): void;
}

interface Incoming {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly _meta?: { readonly progressToken?: unknown } };
  readonly result?: unknown;
}

/** The streams that name no usable address, by the path of the server. */
const hostileStarts: Readonly<Record<string, string>> = {
  '/other-origin': 'event: endpoint\ndata: http://127.0.0.2:1/messages\n\n',
  '/script': 'event: endpoint\ndata: javascript:alert(1)\n\n',
  '/huge': `event: endpoint\ndata: /${'x'.repeat(10_000)}\n\n`,
  '/missing': ': nothing\n\n',
};

const tools = ['echo', 'progress', 'ask', 'hold', 'lose', 'open'].map((name) => ({
  name,
  inputSchema: { type: 'object' },
}));
const opened = {
  protocolVersion: '2024-11-05',
  capabilities: { tools: {} },
  serverInfo: { name: 'sse', version: '1' },
};

/**
 * A server of the HTTP+SSE transport, as those of the TypeScript and Python SDKs are: it streams at `/sse` and gets its
 * messages at the address that the first event names. Its tools: `echo` (the number of the stream), `progress`, `ask` (a
 * question), `hold` (no answer), `lose` (cuts the stream instead of an answer), `open` (never confirms the POST). Other
 * paths are hostile.
 */
export async function startSseServer(): Promise<SseServer> {
  const posted: Posted[] = [];
  const requests: string[] = [];
  const streams = new Map<string, ServerResponse>();
  const asked = new Map<string, unknown>();
  let opens = 0;

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    requests.push(`${request.method} ${pathname}`);
    if (request.method === 'GET') return openStream(pathname, response);
    const stream = searchParams.get('stream') ?? '';
    const body = await text(request);
    if (pathname !== '/messages') return void response.writeHead(405).end();
    if (!streams.has(stream)) return void response.writeHead(404).end();
    const message: Incoming = JSON.parse(body);
    if (message.params?.name === 'open') response.once('close', () => requests.push('closed'));
    else response.writeHead(202).end('Accepted');
    handle(stream, message, request);
  }).listen(0, '127.0.0.1');

  function openStream(path: string, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const hostile = hostileStarts[path];
    if (hostile !== undefined) return void response.end(hostile);
    if (path === '/endless') {
      const flood = () =>
        response.write(`data: ${'x'.repeat(50_000)}`, () => response.destroyed || setImmediate(flood));
      return void flood();
    }
    const stream = String(++opens);
    streams.set(stream, response);
    // The second address is not allowed any more, and ignored.
    response.write(`event: endpoint\r\ndata: /messages?stream=${stream}\r\n\r\nevent: endpoint\ndata: /stolen\n\n`);
  }

  function handle(stream: string, message: Incoming, { headers }: IncomingMessage): void {
    const { id, method, params } = message;
    posted.push({ stream, method, params, headers });
    const send = (sent: object) =>
      streams.get(stream)?.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...sent })}\n\n`);
    const say = (to: unknown, said: string) => send({ id: to, result: { content: [{ type: 'text', text: said }] } });
    if (method === undefined) say(asked.get(stream), `stream ${stream} heard ${JSON.stringify(message.result)}`);
    else if (method === 'initialize') send({ id, result: opened });
    else if (method === 'tools/list') send({ id, result: { tools } });
    else if (method !== 'tools/call') return;
    else if (params?.name === 'echo' || params?.name === 'open') say(id, `stream ${stream}`);
    else if (params?.name === 'lose') streams.get(stream)?.destroy();
    else if (params?.name === 'progress') {
      const progressToken = params._meta?.progressToken;
      send({ method: 'notifications/progress', params: { progressToken, progress: 1 } });
      say(id, `stream ${stream}`);
    } else if (params?.name === 'ask') {
      asked.set(stream, id);
      const requestedSchema = { type: 'object', properties: {} };
      send({ id: 'q', method: 'elicitation/create', params: { message: 'who?', requestedSchema } });
    }
  }

  await new Promise((resolve) => server.once('listening', resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posted,
    requests,
    restart() {
      for (const stream of streams.values()) stream.destroy();
      streams.clear();
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
