import { once } from 'node:events';
import { connect, connect as connectPlainly, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import { formatHostAndPort, type HostAndPort } from '../../lib/net/host-and-port.ts';

const connectTimeoutMs = 10_000;

const proxyTimeoutMs = 20_000;
const maxHeadBytes = 16_384;

/** Connects through the HTTP proxy of the user, which resolves the name itself. */
export async function connectThroughProxy(proxy: URL, wanted: HostAndPort, signal: AbortSignal): Promise<Socket> {
  const host = proxy.hostname.replace(/^\[|\]$/g, '');
  const isSecure = proxy.protocol === 'https:';
  const port = Number(proxy.port) || (isSecure ? 443 : 80);
  const socket = isSecure
    ? connectSecurely({ host, port, servername: host })
    : connectPlainly({ host, port, allowHalfOpen: true, noDelay: true });
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
export async function connectToAny(addresses: readonly string[], port: number, signal: AbortSignal): Promise<Socket> {
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
