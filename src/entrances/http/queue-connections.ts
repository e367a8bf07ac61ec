import { maxHeaderSize, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '../../lib/net/host-and-port.ts';

const headEnd = '\r\n\r\n';

/**
 * Hands new connections to the HTTP server, at most one in each turn of the event loop, and only when the head of their
 * first request is complete. However many strangers connect at once, requests on known connections wait for one of them
 * at most. The networks take turns.
 */
export function queueConnections(http: Server, headTimeoutMs: number): void {
  const [serve] = http.listeners('connection') as ((socket: Socket) => void)[];
  http.removeAllListeners('connection');
  /** The connections to hand over, by network. */
  const ready = new Map<string, Set<Socket>>();

  function enqueue(socket: Socket): void {
    const network = networkOf(socket.remoteAddress ?? '');
    const sockets = ready.get(network);
    if (sockets !== undefined) sockets.add(socket);
    else {
      ready.set(network, new Set([socket]));
      if (ready.size === 1) setImmediate(handOver);
    }
  }

  function handOver(): void {
    const socket = takeNext(ready);
    if (ready.size > 0) setImmediate(handOver);
    if (socket === undefined || socket.destroyed) return;
    serve?.call(http, socket);
    socket.resume();
  }

  http.on('connection', (socket: Socket) => {
    // A connection can break while it waits and nobody else listens.
    socket.on('error', ignore);
    const expired = Object.assign(new Error('Request timeout'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' });
    const timer = setTimeout(() => http.emit('clientError', expired, socket), headTimeoutMs).unref();
    socket.once('close', () => clearTimeout(timer));
    readHead(socket, () => {
      clearTimeout(timer);
      enqueue(socket);
    });
  });
}

function ignore(): void {}

/** Removes the next connection from the queue. Its network moves to the end, behind the others. */
function takeNext(queue: Map<string, Set<Socket>>): Socket | undefined {
  for (const [network, sockets] of queue) {
    queue.delete(network);
    for (const socket of sockets) {
      sockets.delete(socket);
      if (sockets.size > 0) queue.set(network, sockets);
      return socket;
    }
  }
  return undefined;
}

/**
 * Waits for the head of the first request and puts back what was read. The HTTP server refuses heads that are too long
 * or do not begin with a method.
 */
function readHead(socket: Socket, onHead: () => void): void {
  let head: Buffer | undefined;

  function addPiece(piece: Buffer): void {
    const before = head?.length ?? 0;
    // One buffer, because a list of pieces would take a hundred times the memory if they come byte by byte.
    head = head === undefined ? piece : Buffer.concat([head, piece]);
    const start = startOfHead(head);
    const isComplete = head.indexOf(headEnd, Math.max(start, before - headEnd.length)) !== -1;
    if (!isComplete && head.length < maxHeaderSize && startsWithMethod(head, start)) return;
    socket.pause();
    socket.off('data', addPiece).off('end', closeSocket);
    socket.unshift(head);
    onHead();
  }
  /** Closes a connection that ended without a request. */
  function closeSocket(): void {
    socket.destroy();
  }
  socket.on('data', addPiece).on('end', closeSocket);
}

/** The HTTP server skips line breaks in front of a request. */
function startOfHead(bytes: Buffer): number {
  let at = 0;
  while (bytes[at] === 0x0d || bytes[at] === 0x0a) at++;
  return at;
}

/** Checks as much of the method as has arrived. */
function startsWithMethod(bytes: Buffer, start: number): boolean {
  return /^[A-Z-]{0,32}(?: |$)/.test(bytes.toString('latin1', start, start + 33));
}
