import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream';

/** They are about one connection, and this proxy has two. */
const ofOneConnection = new Set(
  'connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade'.split(
    ' ',
  ),
);

interface Relayed {
  readonly asked: IncomingMessage;
  readonly answer: ServerResponse;
  readonly socket: Socket;
  /** As it goes into the Host header: what was looked at, whatever the client says there. */
  readonly authority: string;
  readonly path: string;
}

/** One plain HTTP request over a connection that has been made for it. */
export function relayRequest({ asked, answer, socket, authority, path }: Relayed): void {
  const onward = request({
    createConnection: () => socket,
    method: asked.method ?? 'GET',
    path,
    setHost: false,
    headers: [...passedOn(asked.rawHeaders, 'host'), 'Host', authority, 'Connection', 'close'],
  });
  onward.on('response', (found) => {
    answer.writeHead(found.statusCode ?? 502, found.statusMessage, passedOn(found.rawHeaders));
    pipeline(found, answer, () => {});
  });
  onward.on('error', () => {
    if (answer.headersSent) answer.destroy();
    else answer.writeHead(502).end();
  });
  answer.on('close', () => socket.destroy());
  pipeline(asked, onward, () => {});
}

/** Without those about the connection, among them every one that `Connection` names. */
function passedOn(raw: readonly string[], ...further: readonly string[]): string[] {
  const named = pairsOf(raw)
    .filter(([name]) => name.toLowerCase() === 'connection')
    .flatMap(([, value]) => value.split(',').map((each) => each.trim().toLowerCase()));
  const dropped = new Set([...ofOneConnection, ...named, ...further]);
  return pairsOf(raw)
    .filter(([name]) => !dropped.has(name.toLowerCase()))
    .flat();
}

function pairsOf(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, index) => (index % 2 === 0 ? [[name, raw[index + 1] ?? ''] as [string, string]] : []));
}
