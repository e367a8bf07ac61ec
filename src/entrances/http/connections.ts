import { readFileSync } from 'node:fs';
import { maxHeaderSize, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ShortLivedSet } from '../../lib/async/short-lived-set.ts';
import { networkOf } from '../../lib/net/host-and-port.ts';

/** The descriptors for everything else: stores, journals, and three pipes for each process. */
const otherDescriptors = 384;

interface ConnectionLimits {
  readonly total: number;
  /** The limit of unproven connections from one address. */
  readonly perAddress: number;
  readonly perCredential: number;
}

export interface Connections {
  /** Counts a connection until it closes. At the limit, another connection is closed for it. */
  add(socket: Socket): void;
  /** Adds a request. Returns false if the connection is closed or has too many unanswered requests. */
  startRequest(socket: Socket, response: ServerResponse): boolean;
  /**
   * Assigns a verified credential. Returns false if the credential has too many connections and all of them are in use.
   */
  assignCredential(socket: Socket, credential: string): boolean;
  /** Ends a request that `assignCredential` counted. */
  finishRequest(socket: Socket): void;
  /** Counts the connection as unproven again. */
  demote(socket: Socket): void;
  all(): Iterable<Socket>;
}

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** Undefined until a credential was verified. */
  credential: string | undefined;
  /** Requests with a credential that wait for their answer. */
  underWay: number;
  /** The answers that are not sent yet. */
  readonly unanswered: ShortLivedSet<ServerResponse>;
}

const maxUnanswered = { stranger: 4, proven: 256 };

/**
 * The connections of the port. At a limit, the oldest unproven connection is closed, so that a new client can always
 * show a credential. Connections with a credential are never closed for an unproven one. They count for their
 * credential, because thousands of clients share one address behind a proxy.
 */
export function createConnections(limits: ConnectionLimits, onClosed: (socket: Socket) => void): Connections {
  const known = new Map<Socket, Connection>();
  /** Unproven connections, oldest first. The sets below have the same order. */
  const strangers = new Set<Connection>();
  const byAddress = new Map<string, Set<Connection>>();
  const byCredential = new Map<string, Set<Connection>>();
  const crowded = new Set<string>();

  function addToGroup(connection: Connection): void {
    const { credential, address } = connection;
    if (credential === undefined) strangers.add(connection);
    const [groups, name] = credential === undefined ? [byAddress, address] : [byCredential, credential];
    const group = groups.get(name);
    if (group === undefined) groups.set(name, new Set([connection]));
    else group.add(connection);
  }

  function removeFromGroup(connection: Connection): void {
    const { credential, address } = connection;
    strangers.delete(connection);
    const [groups, name] = credential === undefined ? [byAddress, address] : [byCredential, credential];
    const group = groups.get(name);
    group?.delete(connection);
    if (group?.size === 0) groups.delete(name);
  }

  function forget(connection: Connection): void {
    if (!known.delete(connection.socket)) return;
    removeFromGroup(connection);
  }

  function closeConnection(connection: Connection): void {
    forget(connection);
    onClosed(connection.socket);
    connection.socket.destroy();
    stopParsing(connection.socket);
  }

  function closeOldestStranger(): void {
    const [oldest] = strangers;
    if (oldest !== undefined) closeConnection(oldest);
  }

  /** Closes surplus connections of an address, after data that has already arrived was read. */
  function limitAddress(address: string): void {
    if (crowded.has(address)) return;
    crowded.add(address);
    setImmediate(() =>
      setImmediate(() => {
        crowded.delete(address);
        for (const connection of byAddress.get(address) ?? []) {
          if ((byAddress.get(address)?.size ?? 0) <= limits.perAddress) return;
          closeConnection(connection);
        }
      }),
    );
  }

  function makeRoomFor(credential: string): boolean {
    const group = byCredential.get(credential);
    if (group === undefined || group.size < limits.perCredential) return true;
    for (const connection of group) {
      if (connection.underWay > 0) continue;
      closeConnection(connection);
      return true;
    }
    return false;
  }

  return {
    all: () => known.keys(),
    add(socket) {
      const address = networkOf(socket.remoteAddress ?? '');
      const connection: Connection = {
        socket,
        address,
        credential: undefined,
        underWay: 0,
        unanswered: new ShortLivedSet(),
      };
      known.set(socket, connection);
      addToGroup(connection);
      socket.once('close', () => {
        forget(connection);
        // Node itself closes the answer that is being sent.
        process.nextTick(closeAnswers, connection.unanswered);
      });
      if (known.size > limits.total) closeOldestStranger();
      if ((byAddress.get(address)?.size ?? 0) > limits.perAddress) limitAddress(address);
    },
    startRequest(socket, response) {
      const connection = known.get(socket);
      if (connection === undefined) return false;
      const { unanswered } = connection;
      const isStranger = connection.credential === undefined;
      const maxRequests = isStranger ? maxUnanswered.stranger : maxUnanswered.proven;
      if (unanswered.size >= maxRequests || (isStranger && socket.writableEnded)) {
        closeConnection(connection);
        return false;
      }
      const entry = unanswered.add(response);
      response.on('close', () => unanswered.remove(entry));
      return true;
    },
    assignCredential(socket, credential) {
      const connection = known.get(socket);
      // The connection is already closed, so the answer does not matter.
      if (connection === undefined) return true;
      if (connection.credential !== credential) {
        if (!makeRoomFor(credential)) return false;
        removeFromGroup(connection);
        connection.credential = credential;
        addToGroup(connection);
      }
      connection.underWay++;
      return true;
    },
    finishRequest(socket) {
      const connection = known.get(socket);
      if (connection !== undefined) connection.underWay--;
    },
    demote(socket) {
      const connection = known.get(socket);
      if (connection?.credential === undefined || connection.underWay > 0) return;
      removeFromGroup(connection);
      connection.credential = undefined;
      addToGroup(connection);
    },
  };
}

/** Closes the answers that wait behind another one. Node does not close them when the connection ends. */
function closeAnswers(answers: Iterable<ServerResponse>): void {
  for (const answer of answers) {
    answer.destroyed = true;
    answer.emit('close');
  }
}

/** The value that makes Node's parser stop. */
const parserStop = -1;

/**
 * Stops the parser of a closed connection. Node would go on to read all requests that have arrived: 40 ms for 64 KB. If
 * the parser is not found, it only takes longer.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as Socket & { readonly parser?: { onIncoming?: unknown } | null };
  if (typeof parser?.onIncoming === 'function') parser.onIncoming = () => parserStop;
}

/** Limits the connections to those that this process has descriptors for. */
export function limitConnections(wanted: number, descriptors = readDescriptorLimit()): number {
  return Math.max(16, Math.min(wanted, descriptors - otherDescriptors));
}

/** Reads how many files and sockets this process may open; Infinity if unknown. */
function readDescriptorLimit(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}

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
