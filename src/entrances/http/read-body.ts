import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { createPieces, type Pieces } from '../../protocol/lines/line-pieces.ts';

/** The bytes of one body, for as long as they are kept. */
export interface ReservedBytes {
  /** False when there is no room for so many more. */
  add(bytes: number): boolean;
  release(): void;
}

export interface ByteBudget {
  /** For a body that this caller sends. */
  open(caller: string): ReservedBytes;
  /** How many bytes are kept now. */
  reserved(): number;
}

const maxBodies = 16;

const maxBodiesPerCaller = 8;

/** Why there is no body. */
export type BodyFailure = 'too long' | 'no room' | 'broken off';

interface BodyOptions {
  readonly maxBytes: number;
  /** Where the bytes are counted, if anywhere. */
  readonly reserved?: ReservedBytes;
  /** How one hears that the client has left; a request does not tell it reliably. */
  onGone(listener: () => void): void;
}

/** Reads the whole body. A client that waits for leave to send it gets it here, and not before. */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  { maxBytes, reserved, onGone }: BodyOptions,
): Promise<Buffer | BodyFailure> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve('too long');
  if (expectsContinue(request)) response.writeContinue();
  return new Promise((resolve) => {
    let first: Buffer | undefined;
    let more: Pieces | undefined;
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
 * Lets what is left of a body go by, for a while: a client that is cut off while it sends never gets to read its answer.
 * Of a stranger's body only a little is read; then it stays with its sender, who can read the answer meanwhile. To be
 * called before the answer is written: a stranger's connection ends with it, so that the next request has to wait its
 * turn with all new connections.
 */
export function dropBody(request: IncomingMessage, response: ServerResponse, isStranger: boolean): void {
  if (isStranger && !response.headersSent) response.setHeader('connection', 'close');
  if (!hasBody(request) || request.complete) {
    request.resume();
    return;
  }
  if (expectsContinue(request) && !response.headersSent) {
    // The body is not sent without leave: what comes next on this connection would be taken for it.
    response.setHeader('connection', 'close');
    return;
  }
  if (isStranger) lingerAfterAnswer(request.socket);
  if (isStranger && Number(request.headers['content-length'] ?? 0) > strangersBytes) {
    // What is known to be longer is not read: each piece that is read makes room for the next. Node would read it all,
    // once the answer is out, if nobody listened; whoever listens so takes what there is, and asks for no more.
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

/** Node closes a connection with its last answer. With bytes unread that is a reset, which can overtake the answer. */
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

/** Other expectations have been refused before. */
function expectsContinue({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.expect !== undefined && httpVersion === '1.1';
}

function startPieces(first: Buffer): Pieces {
  const pieces = createPieces();
  pieces.add(first);
  return pieces;
}

/**
 * All bodies that are kept at a time, from their first byte until they are answered. The memory for them is bounded by a
 * multiple of the longest body, and one caller can fill half of it.
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
