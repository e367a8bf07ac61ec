import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** What is left to everything but connections: stores, journals, and three pipes for each process. */
const otherDescriptors = 384;

interface ConnectionLimits {
  readonly total: number;
  /** Of connections that have proven nothing, from one address. */
  readonly perAddress: number;
  readonly perCredential: number;
}

export interface Connections {
  /** Counts a connection until it closes, and makes room for it where there is none. */
  add(socket: Socket): void;
  /**
   * A request has come on this connection. False when it is not to be answered: the connection is closed, or has more
   * unanswered requests than any client needs.
   */
  startRequest(socket: Socket, response: ServerResponse): boolean;
  /**
   * A request on this connection has proven a credential. False when that has as many connections as it may, and all of
   * them are in use.
   */
  assignCredential(socket: Socket, credential: string): boolean;
  /** That request has been answered. */
  finishRequest(socket: Socket): void;
  /** A request on this connection has proven nothing. */
  demote(socket: Socket): void;
  all(): Iterable<Socket>;
}

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** Undefined as long as it has proven nothing. */
  credential: string | undefined;
  /** Requests with a credential that wait for their answer. */
  underWay: number;
  /** The answers that are not out yet, whoever they are for. */
  readonly unanswered: Set<ServerResponse>;
}

const maxUnanswered = { stranger: 4, proven: 256 };

/**
 * The connections of the port. At a limit the oldest one that has proven nothing is closed, so that a newcomer always
 * gets to show a credential, however many strangers hold connections. Those that have shown one are never closed for
 * a stranger, and count for their credential: behind a proxy, thousands of clients share one address.
 */
export function createConnections(limits: ConnectionLimits, onClosed: (socket: Socket) => void): Connections {
  const known = new Map<Socket, Connection>();
  /** The oldest first, in this and in each of the following. */
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

  /** Many clients of one address may come at once: first what they have sent is read. */
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
      const connection: Connection = { socket, address, credential: undefined, underWay: 0, unanswered: new Set() };
      known.set(socket, connection);
      addToGroup(connection);
      socket.once('close', () => {
        forget(connection);
        // Node closes the answer that is being sent.
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
      const most = isStranger ? maxUnanswered.stranger : maxUnanswered.proven;
      if (unanswered.size >= most || (isStranger && socket.writableEnded)) {
        closeConnection(connection);
        return false;
      }
      unanswered.add(response);
      response.once('close', () => unanswered.delete(response));
      return true;
    },
    assignCredential(socket, credential) {
      const connection = known.get(socket);
      // Closed meanwhile: whatever is answered, nobody hears it.
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

/** Closes the answers that wait behind another one of their connection. Node does not when the connection ends. */
function closeAnswers(answers: Iterable<ServerResponse>): void {
  for (const answer of answers) {
    answer.destroyed = true;
    answer.emit('close');
  }
}

/** What Node's parser takes for a request that it cannot go on after. */
const parserStop = -1;

/**
 * Node reads on in a piece of many requests when the connection is closed, and makes a request and an answer of each:
 * 40 ms for 64 KB of them. Where its parser is not found, that only takes longer.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as Socket & { readonly parser?: { onIncoming?: unknown } | null };
  if (typeof parser?.onIncoming === 'function') parser.onIncoming = () => parserStop;
}

/** An address of IPv4; of IPv6 its first half, since whoever has one address there has all that begin like it. */
export function networkOf(address: string): string {
  if (address.includes('.')) return address.replace(/^::ffff:/i, '');
  const [before = '', after] = address.toLowerCase().replace(/%.*$/s, '').split('::', 2);
  const groups = before === '' ? [] : before.split(':');
  if (after !== undefined) {
    const rest = after === '' ? [] : after.split(':');
    while (groups.length + rest.length < 8) groups.push('0');
    groups.push(...rest);
  }
  return groups.slice(0, 4).join(':');
}

/** How many connections there may be, as wanted, or as many as this process has descriptors for. */
export function limitConnections(wanted: number, descriptors = readDescriptorLimit()): number {
  return Math.max(16, Math.min(wanted, descriptors - otherDescriptors));
}

/** How many files and sockets this process may have open; Infinity where that is not told. */
function readDescriptorLimit(): number {
  try {
    const limit = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
    return limit === undefined ? Infinity : Number(limit);
  } catch {
    return Infinity;
  }
}
