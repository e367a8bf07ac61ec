import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { createPieceBuffer, type PieceBuffer } from '../../protocol/lines/line-buffer.ts';

/** The bytes that one body takes from a budget. */
export interface ReservedBytes {
  /** Returns false if there is no room for so many more bytes. */
  add(bytes: number): boolean;
  release(): void;
}

export interface ByteBudget {
  /** Starts to count the bytes of one body of this caller. */
  open(caller: string): ReservedBytes;
  reserved(): number;
}

const maxBodies = 16;
const maxBodiesPerCaller = 8;

export type BodyFailure = 'too long' | 'no room' | 'broken off';

interface BodyOptions {
  readonly maxBytes: number;
  /** Counts the bytes, if given. */
  readonly reserved?: ReservedBytes;
  /** Calls the listener when the client has left. A request does not report that reliably. */
  onGone(listener: () => void): void;
}

/** Reads the whole body. A client that waits for "100 Continue" gets it here, and not before. */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  { maxBytes, reserved, onGone }: BodyOptions,
): Promise<Buffer | BodyFailure> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve('too long');
  if (expectsContinue(request)) response.writeContinue();
  return new Promise((resolve) => {
    let first: Buffer | undefined;
    let more: PieceBuffer | undefined;
    let size = 0;
    const stop = (why: BodyFailure) => {
      request.removeAllListeners('data');
      first = undefined;
      more = undefined;
      resolve(why);
    };
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxBytes) stop('too long');
      else if (reserved?.add(chunk.length) === false) stop('no room');
      else if (first === undefined) first = chunk;
      else {
        more ??= startPieces(first);
        more.add(chunk);
      }
    });
    request.on('end', () => resolve(more === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(more.take())));
    onGone(() => stop('broken off'));
  });
}

const lingerMs = 2000;
const strangersBytes = 64 * 1024;

/**
 * Reads and drops the rest of a body for a while, because a client that is cut off while it sends cannot read the
 * answer. Only a little of a stranger's body is read. Call it before the answer is written: a stranger's connection
 * ends with the answer, so that the next request waits with all new connections.
 */
export function dropBody(request: IncomingMessage, response: ServerResponse, isStranger: boolean): void {
  if (isStranger && !response.headersSent) response.setHeader('connection', 'close');
  if (!hasBody(request) || request.complete) {
    request.resume();
    return;
  }
  if (expectsContinue(request) && !response.headersSent) {
    // The client does not send the body now, so the next bytes must not be taken for it.
    response.setHeader('connection', 'close');
    return;
  }
  if (isStranger) lingerAfterAnswer(request.socket);
  if (isStranger && Number(request.headers['content-length'] ?? 0) > strangersBytes) {
    // A longer body is not read, because each piece that is read makes room for the next. Without a listener Node would
    // read it all
    // after the answer; a `readable` listener takes what has arrived and asks for no more.
    request.on('readable', () => {});
  } else {
    let left = isStranger ? strangersBytes : Infinity;
    request.on('data', (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) request.pause();
    });
    request.resume();
  }
  const cut = setTimeout(() => request.destroy(), lingerMs).unref();
  request.once('end', () => clearTimeout(cut));
  request.once('close', () => clearTimeout(cut));
}

/** Closes the connection a moment later than Node, whose reset could overtake the answer. */
function lingerAfterAnswer(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end();
    const cut = setTimeout(() => socket.destroy(), lingerMs).unref();
    socket.once('close', () => clearTimeout(cut));
  };
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

/** Tells whether the client waits for "100 Continue". Other expectations were refused before. */
function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1';
}

function startPieces(first: Buffer): PieceBuffer {
  const pieces = createPieceBuffer();
  pieces.add(first);
  return pieces;
}

/**
 * Limits the memory of all bodies from their first byte until they are answered: a multiple of the longest body in all,
 * half of that for one caller.
 */
export function createByteBudget(maxBodyBytes: () => number): ByteBudget {
  const ofCallers = new Map<string, number>();
  let inAll = 0;

  function addBytes(caller: string, bytes: number): void {
    inAll += bytes;
    const now = (ofCallers.get(caller) ?? 0) + bytes;
    if (now === 0) ofCallers.delete(caller);
    else ofCallers.set(caller, now);
  }

  return {
    reserved: () => inAll,
    open(caller) {
      let mine = 0;
      return {
        add(bytes) {
          const maxBytes = maxBodyBytes();
          if (inAll + bytes > maxBodies * maxBytes) return false;
          if ((ofCallers.get(caller) ?? 0) + bytes > maxBodiesPerCaller * maxBytes) return false;
          mine += bytes;
          addBytes(caller, bytes);
          return true;
        },
        release() {
          if (mine > 0) addBytes(caller, -mine);
          mine = 0;
        },
      };
    },
  };
}
