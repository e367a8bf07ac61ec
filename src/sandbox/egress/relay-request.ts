import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream';

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
export function relayRequest({ asked, answer, socket, authority, path }: RelayedRequest): void {
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
