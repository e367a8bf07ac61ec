import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { allServers } from '../../gateway/aggregate/for-all.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { openAdminToken } from '../../identity/admin-token.ts';
import type { Log } from '../../log.ts';
import { createAdminDoor } from '../control/answer-admin.ts';
import { createAdminCheck } from './admin-check.ts';
import { createGuards } from './guards.ts';
import { serveMetrics } from './metrics.ts';
import { servePost } from './post.ts';
import { serveResourceMetadata } from './resource-metadata.ts';
import { serveControl } from './serve-control.ts';
import { isLoginPath, serveLogins } from './serve-logins.ts';
import { serveVisit } from './visit.ts';

export interface Listening {
  readonly url: string;
  /** Where the credential of the control API is kept. */
  readonly adminTokenFile: string;
  /** Takes no new connections, lets requests under way finish for a while, then cuts what is left. */
  close(graceMs: number): Promise<void>;
}

const serverPath = /^\/mcp\/([a-z0-9-]{1,64})$/;

export async function listenHttp(
  gateway: Gateway,
  address: { readonly host: string; readonly port: number },
  log: Log,
): Promise<Listening> {
  const guard = createGuards(gateway.config.listen);
  const token = await openAdminToken(gateway.places.dataDir);
  const adminOf = createAdminCheck(gateway, token);
  let url = '';
  const door = createAdminDoor(gateway, () => gateway.config.listen.publicUrl ?? url);
  let closing = false;

  /** A promise only where somebody has to be waited for. */
  function answer(request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    const refusal = guard(request);
    if (refusal !== undefined) {
      request.resume();
      gateway.metrics.httpRefused(refusal.status);
      problem(response, refusal.status, refusal.message);
      return;
    }
    const path = pathOf(request.url ?? '');
    if (path === '/healthz') {
      json(response, 200, { status: 'ok' });
      return;
    }
    if (path === '/readyz') return answerReady(response);
    if (path === '/metrics') return serveMetrics(gateway, adminOf, request, response);
    if (path === '/.well-known/jwks.json' && request.method === 'GET') {
      const bytes = Buffer.from(gateway.jwks());
      const headers = { 'content-type': 'application/jwk-set+json', 'cache-control': 'public, max-age=300' };
      response.writeHead(200, { ...headers, 'content-length': bytes.length }).end(bytes);
      return;
    }
    if (path.startsWith('/.well-known/') && serveResourceMetadata(gateway, path, request, response)) return;
    if (path.startsWith('/api/')) return serveControl(door, adminOf, request, response);
    if (isLoginPath(path)) return serveLogins(gateway, request, response);
    const server = path === '/mcp' ? allServers : serverPath.exec(path)?.[1];
    if (server === undefined) {
      request.resume();
      gateway.metrics.httpRefused(404);
      json(response, 404, { error: 'Not found' });
      return;
    }
    if (request.method === 'POST') return servePost(gateway, server, request, response);
    if (request.method === 'GET' || request.method === 'DELETE') return serveVisit(gateway, server, request, response);
    request.resume();
    gateway.metrics.httpRefused(405);
    response.writeHead(405, { allow: 'POST, GET, DELETE', 'content-length': 0 }).end();
  }

  async function answerReady(response: ServerResponse): Promise<void> {
    const reachable = await gateway.ready().then(
      () => true,
      () => false,
    );
    const status = closing ? 'closing' : reachable ? 'ok' : 'store unavailable';
    json(response, status === 'ok' ? 200 : 503, { status });
  }

  const http = createServer(
    { keepAliveTimeout: 65_000, headersTimeout: 15_000, requestTimeout: 60_000, connectionsCheckingInterval: 5000 },
    (request, response) => {
      answer(request, response)?.catch((error: unknown) => {
        log.warn('exchange failed', { error: String((error as Error)?.stack ?? error) });
        if (!response.headersSent) json(response, 500, { error: 'Internal error' });
        else response.destroy();
      });
    },
  );
  // Node drops the lines beyond a count without a word, an Origin among them; their size bounds them well enough.
  http.maxHeadersCount = 0;
  const sockets = new Set<Socket>();
  http.on('connection', (socket) => {
    socket.setNoDelay(true);
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject);
    http.listen(address.port, address.host, resolve);
  });
  const { port, address: bound, family } = http.address() as AddressInfo;

  url = `http://${family === 'IPv6' ? `[${bound}]` : bound}:${port}`;
  return {
    url,
    adminTokenFile: token.file,
    async close(graceMs) {
      closing = true;
      door.close();
      await drain(http, sockets, graceMs);
    },
  };
}

function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : url.slice(0, query);
}

function drain(http: Server, sockets: Set<Socket>, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      for (const socket of sockets) socket.destroy();
    }, graceMs);
    http.close(() => {
      clearTimeout(cut);
      resolve();
    });
    http.closeIdleConnections();
  });
}

function json(response: ServerResponse, status: number, body: unknown): void {
  const bytes = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes.length });
  response.end(bytes);
}

function problem(response: ServerResponse, status: number, message: string): void {
  json(response, status, { jsonrpc: '2.0', id: null, error: { code: -32000, message } });
}
