import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Connections } from './connections.ts';
import { recordRefusal } from './http-parts.ts';
import { dropBody } from './read-body.ts';

const statuses: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, 'Payload Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

/** Answers what is no request that could be served, as Node would without us, and writes it down. */
export function answerClientErrors(http: Server, gateway: Gateway, connections: Connections): void {
  http.on('clientError', (error: NodeJS.ErrnoException, socket: Duplex) => {
    const { remoteAddress } = socket as Socket;
    // A client that went away was refused nothing.
    if (!socket.writable || error.code === 'ECONNRESET' || error.code === 'EPIPE') {
      socket.destroy();
      return;
    }
    const [status, words] = statuses[error.code ?? ''] ?? [400, 'Bad Request'];
    gateway.metrics.httpRefused(status);
    gateway.refused({ event: 'request', entrance: 'http', status, code: error.code, address: remoteAddress });
    // In the middle of an answer nothing else can be said.
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
    if (!connections.ask(request.socket, response)) return;
    gateway.metrics.httpRefused(417);
    recordRefusal(gateway, request, { event: 'request', status: 417 });
    dropBody(request, response, true);
    response.writeHead(417, { 'content-length': 0, connection: 'close' }).end();
  });
}
