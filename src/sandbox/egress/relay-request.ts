import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream';

/** They are about one connection, and this proxy has two. */
const hopByHopHeaders = new Set(
  'connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

interface RelayedRequest {
  readonly asked: IncomingMessage;
  readonly answer: ServerResponse;
  readonly socket: Socket;
  /** As it goes into the Host header: what was looked at, whatever the client says there. */
  readonly authority: string;
  readonly path: string;
}

/**
 * One plain HTTP request over a connection that has been made for it. Neither side is trusted: what they say must not
 * throw where nobody catches it.
 */
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

/** False where the host's head cannot be passed on. The phrase is not passed on: it says nothing to a program. */
function writeResponseHead(answer: ServerResponse, { statusCode = 0, rawHeaders }: IncomingMessage): boolean {
  if (statusCode < 200 || statusCode > 599) return false;
  try {
    answer.writeHead(statusCode, keepEndToEnd(rawHeaders));
    return true;
  } catch {
    return false;
  }
}

/** Without those about the connection, among them every one that `Connection` names. */
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
