import { once } from 'node:events';
import { closeSync, constants, openSync, realpathSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { type Duplex, pipeline } from 'node:stream';
import { connect as connectSecurely } from 'node:tls';
import {
  formatHostAndPort,
  type HostAndPort,
  parseHostAndPort,
  type ResolveHost,
} from '../../lib/net/host-and-port.ts';
import { forwarderProgram } from '../../package-paths.ts';
import type { Confinement, Mount } from '../common/confinement.ts';
import { runtimeFiles, type ServerFiles } from '../common/server-files.ts';
import type { ProcessLaunch } from '../runner.ts';
import { createAllowList, createConnectCheck } from './connect-allowed.ts';

const connectTimeoutMs = 10_000;

const proxyTimeoutMs = 20_000;

const maxHeadBytes = 16_384;

interface EgressOptions {
  /** Entries of the form `host:port`. */
  readonly allowed: readonly string[];
  /** A private folder for the socket, which is removed with it at the latest. */
  readonly folder: string;
  readonly onRefused: (refusal: EgressRefusal) => void;
  readonly resolve?: ResolveHost;
  /** Whether listed hosts may lead to an address that is not public. */
  readonly allowPrivate?: boolean;
  /** The user's proxy for a host, if any. It resolves the name. */
  readonly proxyFor?: (wanted: HostAndPort) => URL | undefined;
}

export interface EgressRefusal {
  /** The requested host and port, as far as they can be parsed. */
  readonly to: string;
  readonly reason: string;
}

export interface Egress {
  readonly socket: string;
  /** The number of connections by host and port. */
  readonly allowed: ReadonlyMap<string, number>;
  close(): Promise<void>;
}

const socketName = 'egress.sock';
const limits = { connections: 64, headBytes: 16_384, headMs: 10_000 } as const;
const maxTargets = 1000;
const maxTargetLength = 300;

/**
 * Opens a proxy for one process, which has no other access to the network. The proxy runs in our process, outside; only
 * its socket is inside, which no other process sees.
 */
export async function openEgress(options: EgressOptions): Promise<Egress> {
  const list = createAllowList(options.allowed);
  const isOpen = options.allowPrivate === true ? () => true : list.hasAddress;
  const connectAllowed = createConnectCheck({ ...list, hasAddress: isOpen }, options.resolve);
  const sockets = new Set<Duplex>();
  const allowed = new Map<string, number>();
  const closing = new AbortController();

  function refuse(to: string, reason: string): ErrorReply {
    options.onRefused({ to: sanitizeTarget(to), reason });
    return { status: 403, message: `${sanitizeTarget(to)} is refused: ${reason} (servers.<name>.sandbox.network)` };
  }

  async function connectTo(target: string, wanted: HostAndPort | undefined): Promise<Socket | ErrorReply> {
    if (wanted === undefined) return refuse(target, 'not a host and a port');
    const to = formatHostAndPort(wanted);
    const proxy = list.has(wanted) ? options.proxyFor?.(wanted) : undefined;
    const way = proxy === undefined ? await connectAllowed(wanted) : { proxy };
    if ('refused' in way) return refuse(to, way.refused);
    if ('failed' in way) return { status: 502, message: `the address of ${to} cannot be looked up: ${way.failed}` };
    try {
      const socket =
        'proxy' in way
          ? await connectThroughProxy(way.proxy, wanted, closing.signal)
          : await connectToAny(way.addresses, wanted.port, closing.signal);
      trackSocket(socket);
      if (allowed.size < maxTargets || allowed.has(to)) allowed.set(to, (allowed.get(to) ?? 0) + 1);
      return socket;
    } catch (error) {
      return {
        status: 502,
        message: `${to} cannot be reached: ${(error as NodeJS.ErrnoException).code ?? 'no answer'}`,
      };
    }
  }

  function trackSocket(socket: Duplex): void {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    if (closing.signal.aborted) socket.destroy();
  }

  async function onConnect(asked: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    client.on('error', () => {});
    const target = asked.url ?? '';
    const found = await connectTo(target, parseHostAndPort(target));
    if ('message' in found) {
      const { status, message: words } = found;
      const title = status === 403 ? 'Forbidden' : 'Bad Gateway';
      client.end(`HTTP/1.1 ${status} ${title}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${words}\n`);
      return;
    }
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    if (head.length > 0) found.write(head);
    pipeline(client, found, () => {});
    pipeline(found, client, () => {});
  }

  async function onRequest(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const [, authority = '', path = ''] = /^http:\/\/([^/?#\\]*)(.*)$/is.exec(asked.url ?? '') ?? [];
    const wanted = parseHostAndPort(/:\d+$/.test(authority) ? authority : `${authority}:80`);
    const found = await connectTo(asked.url ?? '', wanted);
    if ('message' in found) {
      answer.writeHead(found.status, { 'Content-Type': 'text/plain', Connection: 'close' }).end(`${found.message}\n`);
      return;
    }
    const own = formatHostAndPort(wanted as HostAndPort).replace(/:80$/, '');
    relayRequest({ asked, answer, socket: found, authority: own, path: path.startsWith('/') ? path : `/${path}` });
  }

  const server = createServer({
    maxHeaderSize: limits.headBytes,
    headersTimeout: limits.headMs,
    requestTimeout: 0,
    connectionsCheckingInterval: limits.headMs / 2,
  });
  server.maxConnections = limits.connections;
  server.on('connection', trackSocket);
  server.on('drop', () => refuse('', `more than ${limits.connections} connections at once`));
  server.on('clientError', (error, client) => {
    const { code } = error as NodeJS.ErrnoException;
    if (code?.startsWith('HPE_')) refuse('', 'the request cannot be read');
    client.end(`HTTP/1.1 ${code === 'HPE_HEADER_OVERFLOW' ? '431' : '400'} Bad Request\r\nConnection: close\r\n\r\n`);
  });
  server.on('connect', (asked, client, head) => void onConnect(asked, client, head).catch(() => client.destroy()));
  server.on('request', (asked, answer) => void onRequest(asked, answer).catch(() => answer.destroy()));

  const address = openShortPath(options.folder);
  try {
    server.listen({ path: address.path });
    await once(server, 'listening');
  } catch (error) {
    address.release();
    throw error;
  }
  let closed: Promise<void> | undefined;
  return {
    socket: join(options.folder, socketName),
    allowed,
    close() {
      closed ??= new Promise<void>((resolve) => {
        closing.abort();
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }).then(address.release);
      return closed;
    },
  };
}

interface ErrorReply {
  readonly status: 403 | 502;
  readonly message: string;
}

/** Reduces text from inside to one short line that is safe to show. */
function sanitizeTarget(target: string): string {
  return target.replace(/[^\x21-\x7e]/g, '?').slice(0, maxTargetLength);
}

/** Returns a path by a descriptor: a socket address holds about a hundred bytes, which a data directory can exceed. */
function openShortPath(folder: string): { readonly path: string; release(): void } {
  if (process.platform !== 'linux') return { path: join(folder, socketName), release() {} };
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${descriptor}/${socketName}`, release: () => closeSync(descriptor) };
}

/** Connects through the HTTP proxy of the user, which resolves the name itself. */
async function connectThroughProxy(proxy: URL, wanted: HostAndPort, signal: AbortSignal): Promise<Socket> {
  const host = proxy.hostname.replace(/^\[|\]$/g, '');
  const isSecure = proxy.protocol === 'https:';
  const port = Number(proxy.port) || (isSecure ? 443 : 80);
  const socket = isSecure
    ? connectSecurely({ host, port, servername: host })
    : connect({ host, port, allowHalfOpen: true, noDelay: true });
  const limit = AbortSignal.any([signal, AbortSignal.timeout(proxyTimeoutMs)]);
  try {
    await once(socket, isSecure ? 'secureConnect' : 'connect', { signal: limit });
    const to = formatHostAndPort(wanted);
    socket.write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${authorizationHeader(proxy)}\r\n`);
    const status = await readStatus(socket, limit);
    if (status !== 200) throw new Error(`the proxy answers ${status}`);
    return socket.on('error', () => {});
  } catch (error) {
    socket.on('error', () => {}).destroy();
    throw error;
  }
}

function authorizationHeader({ username, password }: URL): string {
  if (username === '') return '';
  const words = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Proxy-Authorization: Basic ${Buffer.from(words).toString('base64')}\r\n`;
}

/** Reads the status line. The bytes after the head stay in the socket. */
async function readStatus(socket: Socket, signal: AbortSignal): Promise<number> {
  let head = Buffer.alloc(0);
  while (!head.includes('\r\n\r\n')) {
    if (head.length > maxHeadBytes || socket.readableEnded) throw new Error('the proxy does not answer');
    const bytes = socket.read() as Buffer | null;
    if (bytes === null) await once(socket, 'readable', { signal });
    else head = Buffer.concat([head, bytes]);
  }
  const end = head.indexOf('\r\n\r\n') + 4;
  if (end < head.length) socket.unshift(head.subarray(end));
  return Number(/^HTTP\/1\.[01] (\d{3})/.exec(head.toString('latin1'))?.[1]);
}

/** Connects to the first of these addresses that answers. Names are not resolved here. */
async function connectToAny(addresses: readonly string[], port: number, signal: AbortSignal): Promise<Socket> {
  let failure: unknown = new Error('no address');
  for (const host of addresses) {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    try {
      await once(socket, 'connect', { signal: AbortSignal.any([signal, AbortSignal.timeout(connectTimeoutMs)]) });
      // The caller handles errors from now on; an error before that must not end the gateway.
      return socket.on('error', () => {});
    } catch (error) {
      socket.on('error', () => {}).destroy();
      failure = error;
      if (signal.aborted) break;
    }
  }
  throw failure;
}

/** Headers about one connection: this proxy has two. */
const hopByHopHeaders = new Set(
  'connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

interface RelayedRequest {
  readonly asked: IncomingMessage;
  readonly answer: ServerResponse;
  readonly socket: Socket;
  /** The Host header: the host that was checked, whatever the client sends. */
  readonly authority: string;
  readonly path: string;
}

/** Relays one plain HTTP request over its own connection. Neither side is trusted: no input may throw uncaught. */
function relayRequest({ asked, answer, socket, authority, path }: RelayedRequest): void {
  answer.on('close', () => socket.destroy());
  const onward = request({
    createConnection: () => socket,
    method: asked.method ?? 'GET',
    path,
    setHost: false,
    headers: [...keepEndToEnd(asked.rawHeaders, 'host'), 'Host', authority, 'Connection', 'close'],
  });
  const fail = () => {
    if (answer.headersSent) answer.destroy();
    else answer.writeHead(502).end();
  };
  let isAnswered = false;
  onward.on('response', (found) => {
    isAnswered = true;
    if (writeResponseHead(answer, found)) pipeline(found, answer, () => {});
    else {
      found.destroy();
      fail();
    }
  });
  onward.on('error', fail);
  // A switch to another protocol ends a request without a response and without an error.
  onward.on('close', () => {
    if (!isAnswered && !answer.headersSent) fail();
  });
  pipeline(asked, onward, () => {});
}

/** False when the head of the response cannot be relayed. The status text is left out: programs do not read it. */
function writeResponseHead(answer: ServerResponse, { statusCode = 0, rawHeaders }: IncomingMessage): boolean {
  if (statusCode < 200 || statusCode > 599) return false;
  try {
    answer.writeHead(statusCode, keepEndToEnd(rawHeaders));
    return true;
  } catch {
    return false;
  }
}

/** Drops the headers about the connection, and every header that `Connection` names. */
function keepEndToEnd(raw: readonly string[], ...further: readonly string[]): string[] {
  const named = pairHeaders(raw)
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(',').map((each) => each.trim().toLowerCase()));
  const dropped = new Set([...hopByHopHeaders, ...named, ...further]);
  return pairHeaders(raw)
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flat();
}

function pairHeaders(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1] ?? ''] as [string, string]] : []));
}

const port = 3128;
const socketInside = '/run/egress/socket';
// The file ending says which kind of module it is, in any folder.
const forwarderInside = '/run/egress/forwarder.mjs';
/** Small, since the process counts against the limits of the server. */
const nodeOptions = ['--v8-pool-size=0', '--max-old-space-size=32', '--max-semi-space-size=1'];

/**
 * Adds the forwarder to the proxy beside the server, which it starts. It runs on the Node that Ambit runs on, or in an
 * image on the Node of that image: programs of this machine need not run there.
 */
export function addEgressProxy(
  launch: ProcessLaunch,
  confinement: Confinement,
  files: ServerFiles,
): [ProcessLaunch, Confinement, ServerFiles] {
  if (launch.egressProxy === undefined) return [launch, confinement, files];
  const { socket, allowed } = launch.egressProxy;
  const inImage = confinement.image !== undefined;
  const runtime = inImage ? { mounts: [], links: [] } : runtimeFiles(process.execPath, confinement.hidden);
  const node = inImage ? 'node' : process.execPath;
  const forwarding: Mount[] = [
    { source: realpathSync.native(socket), target: socketInside },
    { source: realpathSync.native(forwarderProgram), target: forwarderInside },
  ];
  return [
    { ...launch, env: { ...proxyEnvironment(allowed), ...launch.env } },
    confinement,
    {
      ...files,
      before: [node, ...nodeOptions, forwarderInside, socketInside, String(port)],
      mounts: [...files.mounts, ...runtime.mounts, ...forwarding],
      links: [...files.links, ...runtime.links],
    },
  ];
}

/** The loopback of the sandbox needs no proxy, unless the loopback of the machine is listed. */
function proxyEnvironment(allowed: readonly string[]): Record<string, string> {
  const url = `http://127.0.0.1:${port}`;
  const hosts = new Set(allowed.map((entry) => entry.replace(/:\d+$/, '').toLowerCase()));
  const names = ['localhost', '127.0.0.1', '[::1]'].filter((name) => !hosts.has(name));
  const direct = names.map((name) => name.replace(/^\[|\]$/g, '')).join(',');
  return {
    HTTP_PROXY: url,
    HTTPS_PROXY: url,
    http_proxy: url,
    https_proxy: url,
    NO_PROXY: direct,
    no_proxy: direct,
    // Newer versions of Node read the variables above only with this one.
    NODE_USE_ENV_PROXY: '1',
  };
}
