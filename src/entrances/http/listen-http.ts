import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { allServers } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Log } from '../../observability/log/log.ts';
import { consoleFolder } from '../../package-paths.ts';
import { createControlApi } from '../control/control-api.ts';
import { createAdmitCaller, createCallerCheck, openAdminToken } from './admit-caller.ts';
import { createKeepAlive } from './answer.ts';
import { type Connections, createConnections, limitConnections, queueConnections } from './connections.ts';
import { createGuards, isLoopback } from './guards.ts';
import { type HttpParts, pathWithoutQuery, recordRefusal, sendJson } from './http-parts.ts';
import { createByteBudget, dropBody } from './read-body.ts';
import { createRequestGroups } from './request-groups.ts';
import { serveResourceMetadata } from './resource-metadata.ts';
import { createResumableStreams } from './resumable-streams.ts';
import { createServeControl } from './serve-control.ts';
import { isLoginPath, serveLogins } from './serve-logins.ts';
import { serveMetrics } from './serve-metrics.ts';
import { createServePage, isPagePath } from './serve-page.ts';
import { servePost } from './serve-post.ts';
import { serveTransport } from './serve-transport.ts';

const clientErrorStatuses: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'Payload Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

export interface HttpListener {
  readonly url: string;
  /** The file with the credential of the control API. */
  readonly adminTokenFile: string;
  /** Accepts no new connections, waits `graceMs` for running requests, then closes the other connections. */
  close(graceMs: number): Promise<void>;
}

const serverPath = /^\/mcp\/([a-z0-9-]{1,64})$/;

/** Clients without a token try OAuth and show this text when they find none (RFC 6749 forbids quotes in it). */
const notFoundHint =
  'There is nothing at this address. MCP clients connect to /mcp with the header Authorization: Bearer <token>. ' +
  'Create a token with: ambit session create';

/** Requests whose head or body takes longer are refused. Idle connections are closed. */
const timeouts = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 1000,
};

export async function listenHttp(
  gateway: Gateway,
  address: { readonly host: string; readonly port: number },
  log: Log,
  pageFolder = consoleFolder,
): Promise<HttpListener> {
  const isLocal = isLoopback(address.host) || address.host === 'localhost';
  const guard = createGuards(gateway.config.listen, isLocal ? gateway.running.consoles.hostName : undefined);
  const token = await openAdminToken(gateway.paths.dataDir);
  const findCaller = createCallerCheck(gateway, token);
  const connections = openConnections(gateway, log);
  const parts: HttpParts = {
    gateway,
    connections,
    admitCaller: createAdmitCaller(gateway, connections),
    bodies: createByteBudget(() => gateway.config.limits.bodyBytes),
    answers: createByteBudget(() => gateway.config.limits.messageBytes),
    refused: gateway.metrics.httpRefused,
    keepAlive: createKeepAlive(),
    groups: createRequestGroups(),
    streams: createResumableStreams(),
  };
  let url = '';
  const controlApi = createControlApi(gateway, () => gateway.config.listen.publicUrl ?? url);
  const serveControl = createServeControl(parts, controlApi, findCaller);
  const servePage = createServePage(gateway, pageFolder);
  let closing = false;
  const mayWarn = createRateLimit(10, 60_000);

  /** Returns a promise only if it has to wait. */
  function routeRequest(request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    const refusal = guard(request);
    if (refusal !== undefined) {
      const { event, status, message } = refusal;
      refuseRequest(request, response, status, { event });
      sendJson(response, status, { jsonrpc: '2.0', id: null, error: { code: -32000, message } });
      return;
    }
    const path = pathWithoutQuery(request.url ?? '');
    const server = path === '/mcp' ? allServers : serverPath.exec(path)?.[1];
    if (server !== undefined) return answerMcp(server, request, response);
    if (path.startsWith('/api/')) return serveControl(request, response);
    connections.demote(request.socket);
    if (isLoginPath(path)) return serveLogins(gateway, request, response);
    if (path === '/metrics') return serveMetrics(gateway, findCaller, request, response);
    if (isPagePath(path)) return servePage(request, response);
    if (path === '/readyz') return answerReady(request, response);
    if (path === '/healthz') {
      dropBody(request, response, true);
      sendJson(response, 200, { status: 'ok' });
      return;
    }
    if (path === '/.well-known/jwks.json' && request.method === 'GET') {
      return serveJwks(gateway, request, response);
    }
    if (path.startsWith('/.well-known/') && serveResourceMetadata(gateway, path, request, response)) return;
    refuseRequest(request, response, 404, { event: 'address' });
    sendJson(response, 404, { error: 'Not found', error_description: notFoundHint });
  }

  function answerMcp(server: string, request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    if (request.method === 'POST') return servePost(parts, server, request, response);
    if (request.method === 'GET' || request.method === 'DELETE')
      return serveTransport(parts, server, request, response);
    connections.demote(request.socket);
    refuseRequest(request, response, 405, { event: 'method' });
    response.writeHead(405, { allow: 'POST, GET, DELETE', 'content-length': 0 }).end();
    return undefined;
  }

  /** Refuses a request before its sender is known. */
  function refuseRequest(
    request: IncomingMessage,
    response: ServerResponse,
    status: number,
    { event }: { readonly event: 'host' | 'origin' | 'address' | 'method' },
  ): void {
    gateway.metrics.httpRefused(status);
    recordRefusal(gateway, request, { event, status });
    dropBody(request, response, true);
  }

  let pinging: Promise<boolean> | undefined;
  /** Asks the store once for all requests that wait. */
  function isReachable(): Promise<boolean> {
    pinging ??= gateway
      .ready()
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        pinging = undefined;
      });
    return pinging;
  }

  async function answerReady(request: IncomingMessage, response: ServerResponse): Promise<void> {
    dropBody(request, response, true);
    const status = closing ? 'closing' : (await isReachable()) ? 'ok' : 'store unavailable';
    sendJson(response, status === 'ok' ? 200 : 503, { status });
  }

  function handleRequest(request: IncomingMessage, response: ServerResponse): void {
    if (!connections.startRequest(request.socket, response)) return;
    try {
      routeRequest(request, response)?.catch((error: unknown) => answerFailure(response, error));
    } catch (error) {
      answerFailure(response, error);
    }
  }

  /** Answers after an internal error, which must not end the gateway or fill the log. */
  function answerFailure(response: ServerResponse, error: unknown): void {
    if (mayWarn()) log.warn('exchange failed', { error: String((error as Error)?.stack ?? error) });
    if (!response.headersSent) sendJson(response, 500, { error: 'Internal error' });
    else response.destroy();
  }

  // We refuse requests without a Host ourselves, so that the refusal is recorded.
  const http = createServer({ ...timeouts, requireHostHeader: false }, handleRequest);
  http.on('checkContinue', handleRequest);
  answerClientErrors(http, gateway, connections);
  // Node silently drops headers beyond a count, Origin among them. Their total size is limited anyway.
  http.maxHeadersCount = 0;
  queueConnections(http, timeouts.headersTimeout);
  http.prependListener('connection', (socket) => {
    socket.setNoDelay(true);
    connections.add(socket);
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
      controlApi.close();
      await closeServer(http, connections, graceMs);
      parts.keepAlive.close();
    },
  };
}

function serveJwks(gateway: Gateway, request: IncomingMessage, response: ServerResponse): undefined {
  dropBody(request, response, true);
  const bytes = Buffer.from(gateway.jwks());
  const headers = { 'content-type': 'application/jwk-set+json', 'cache-control': 'public, max-age=300' };
  response.writeHead(200, { ...headers, 'content-length': bytes.length }).end(bytes);
}

/** Half of the connections are for one address, enough for a program that opens a hundred at once. */
function openConnections(gateway: Gateway, log: Log): Connections {
  const { maxConnections, behindProxy } = gateway.config.listen;
  const total = limitConnections(maxConnections);
  if (total < maxConnections) log.warn('fewer connections than configured', { connections: total });
  // Behind a proxy, all connections have its address.
  const limits = {
    total,
    perAddress: behindProxy ? total : Math.ceil(total / 2),
    perCredential: Math.ceil(total / 2),
  };
  return createConnections(limits, ({ remoteAddress }: Socket) => {
    gateway.recordRefusal({ event: 'connection', entrance: 'http', address: remoteAddress, detail: 'too many' });
  });
}

/** Returns true at most `maxPerWindow` times in each window. */
function createRateLimit(maxPerWindow: number, windowMs: number): () => boolean {
  let [count, until] = [0, 0];
  return () => {
    const now = performance.now();
    if (now >= until) [count, until] = [0, now + windowMs];
    return ++count <= maxPerWindow;
  };
}

function closeServer(http: Server, connections: Connections, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      for (const socket of connections.all()) socket.destroy();
    }, graceMs);
    http.close(() => {
      clearTimeout(cut);
      resolve();
    });
    http.closeIdleConnections();
  });
}

/** Answers what Node cannot parse as Node itself would, and records it. */
function answerClientErrors(http: Server, gateway: Gateway, connections: Connections): void {
  http.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    const { remoteAddress } = socket as Socket;
    // A client that went away was not refused.
    if (!socket.writable || error.code === 'ECONNRESET' || error.code === 'EPIPE') {
      socket.destroy();
      return;
    }
    const [status, words] = clientErrorStatuses[error.code ?? ''] ?? [400, 'Bad Request'];
    gateway.metrics.httpRefused(status);
    gateway.recordRefusal({ event: 'request', entrance: 'http', status, code: error.code, address: remoteAddress });
    // Nothing can be added to an answer that is being sent.
    const { _httpMessage: answering } = socket as Socket & { readonly _httpMessage?: ServerResponse | null };
    if (answering?.headersSent !== true) {
      socket.write(`HTTP/1.1 ${status} ${words}\r\nConnection: close\r\n\r\n`);
    }
    socket.destroy();
  });
  http.on('connect', (request: IncomingMessage, socket: Duplex) => {
    gateway.metrics.httpRefused(405);
    recordRefusal(gateway, request, { event: 'method', status: 405 });
    socket.destroy();
  });
  http.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    if (!connections.startRequest(request.socket, response)) return;
    gateway.metrics.httpRefused(417);
    recordRefusal(gateway, request, { event: 'request', status: 417 });
    dropBody(request, response, true);
    response.writeHead(417, { 'content-length': 0, connection: 'close' }).end();
  });
}
