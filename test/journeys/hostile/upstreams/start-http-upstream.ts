import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface UpstreamRequest {
  readonly id: unknown;
  readonly method: string;
  readonly params: {
    readonly name?: string;
    readonly arguments?: Record<string, unknown>;
    readonly protocolVersion?: string;
  };
  readonly request: IncomingMessage;
}

/** How an upstream ends one request; `socket` is for what HTTP does not allow. */
export type Behaviour = (asked: UpstreamRequest, response: ServerResponse, socket: Socket) => void;

export interface Upstream {
  readonly url: string;
  /** Every request so far: `POST tools/call`, `GET`, `DELETE`. */
  readonly seen: string[];
  readonly asked: UpstreamRequest[];
  connections(): number;
  stop(): Promise<void>;
}

export function answerCorrectly(id: unknown, text = 'right'): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', content: [{ type: 'text', text }] } });
}

export function sendJson(response: ServerResponse, text: string, status = 200, headers: Record<string, string> = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
}

export function toEvent(text: string): string {
  return `event: message\ndata: ${text}\n\n`;
}

export const openings: Record<string, Behaviour> = {
  'server/discover': ({ id }, response) => {
    const offer = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 0, cacheScope: 'private' };
    sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...offer } }));
  },
  initialize: ({ id, params }, response) => {
    const { protocolVersion } = params;
    const result = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'hostile', version: '1' } };
    sendJson(response, JSON.stringify({ jsonrpc: '2.0', id, result }), 200, { 'mcp-session-id': 'upstream-1' });
  },
};

/** An MCP server over HTTP, in both eras, whose tools are behaviours; other methods may be replaced too. */
export async function startUpstream(
  tools: Record<string, Behaviour>,
  methods: Record<string, Behaviour> = {},
): Promise<Upstream> {
  const seen: string[] = [];
  const asked: UpstreamRequest[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('error', () => {});
    response.on('error', () => {});
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const message = (body === '' ? {} : JSON.parse(body)) as Omit<UpstreamRequest, 'request'>;
      const { method = '' } = message;
      const name = message.params?.name ?? '';
      seen.push(`${request.method} ${method}${name === '' ? '' : ` ${name}`}`.trim());
      const one: UpstreamRequest = { ...message, request };
      asked.push(one);
      const { socket } = request;
      const given = methods[method] ?? methods[`${request.method}`];
      if (given !== undefined) given(one, response, socket);
      else if (method === 'tools/call' && tools[name] !== undefined) tools[name](one, response, socket);
      else if (method === 'tools/call') sendJson(response, answerCorrectly(message.id));
      else if (openings[method] !== undefined) openings[method](one, response, socket);
      else response.writeHead(request.method === 'POST' ? 202 : 405).end();
    });
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    seen,
    asked,
    connections: () => sockets.size,
    async stop() {
      server.closeAllConnections();
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Writes the same bytes for as long as the other side takes them. */
export function sendFast(response: ServerResponse, bytes: string | Buffer): void {
  const more = () => {
    while (!response.destroyed && !response.writableEnded && response.write(bytes));
  };
  response.on('drain', more);
  more();
}

export function sendSlowly(response: ServerResponse, bytes: string, everyMs: number): void {
  const timer = setInterval(() => response.write(bytes), everyMs);
  response.on('close', () => clearInterval(timer));
}
