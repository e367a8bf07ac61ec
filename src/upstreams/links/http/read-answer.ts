import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { AmbitError } from '../../../errors.ts';
import { readServerMessage } from '../../../protocol/ambiguous-keys.ts';
import { createPieceBuffer } from '../../../protocol/lines/line-buffer.ts';
import { createTurnBudget } from '../../../protocol/lines/read-lines.ts';
import { type Message, MessageError } from '../../../protocol/message.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { notMcpError, tooDenseError } from '../upstream-errors.ts';
import { discardResponse } from './send-request.ts';

/** The number of unreadable events per second. A burst may have twice as many. */
const unreadablePerSecond = 500;

interface AnswerReader {
  readonly server: string;
  readonly maxBytes: number;
  /** Returns true for the final message; the rest of the answer is discarded then. */
  onMessage(message: Message): boolean;
  onEventId?(id: string | undefined): void;
  onRetry?(ms: number): void;
  /** Called for an event without data. */
  readonly onEmpty?: (() => void) | undefined;
  /** Takes the events that are no messages: those with a name other than "message". */
  onNamedEvent?(name: string, data: Buffer): void;
  /** True while a broken stream can be resumed: then it ends without an error. */
  canResume?(): boolean;
}

/** Reads each JSON-RPC message of an answer, from JSON or from events; resolves at the end of the answer. */
export function readAnswer(response: IncomingMessage, reader: AnswerReader): Promise<void> {
  if (isEventStream(response)) return readEvents(response, reader);
  if (readContentType(response) === 'application/json') return readJson(response, reader);
  discardResponse(response);
  throw notMcpError(reader.server, response);
}

export function isEventStream(response: IncomingMessage): boolean {
  return readContentType(response) === 'text/event-stream';
}

function readContentType({ headers }: IncomingMessage): string | undefined {
  return (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase();
}

function readJson(response: IncomingMessage, reader: AnswerReader): Promise<void> {
  return new Promise((resolve, reject) => {
    const pieces = createPieceBuffer();
    let size = 0;
    response.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > reader.maxBytes) {
        // `destroy` reports a broken answer, so the real reason is set first.
        reject(new AmbitError('UPSTREAM_TOO_LARGE'));
        response.destroy();
      } else pieces.add(chunk);
    });
    response.on('end', () => {
      const taken = pieces.take();
      const message = parseMessage(taken.length === 1 ? (taken[0] as Buffer) : Buffer.concat(taken), reader.server);
      if (message === undefined) reject(notMcpError(reader.server, response));
      else if (message instanceof AmbitError) reject(message);
      else {
        reader.onMessage(message);
        resolve();
      }
    });
    response.on('error', () => reject(brokenOffError(reader.server)));
    response.on('aborted', () => reject(brokenOffError(reader.server)));
  });
}

function readEvents(response: IncomingMessage, reader: AnswerReader): Promise<void> {
  return new Promise((resolve, reject) => {
    const unreadable = createRateLimit(unreadablePerSecond);
    let isCutOff = false;
    const cutOff = (reason: AmbitError) => {
      isCutOff = true;
      reject(reason);
      response.destroy();
    };
    readSse(response, {
      maxBytes: reader.maxBytes,
      onEventId: (id) => reader.onEventId?.(id),
      onRetry: (ms) => reader.onRetry?.(ms),
      onEvent(event) {
        if (isCutOff) return;
        if (reader.onNamedEvent !== undefined && event.name !== '' && event.name !== 'message') {
          if (unreadable.admit()) reader.onNamedEvent(event.name, event.data);
          else cutOff(floodError(reader.server));
          return;
        }
        const message = parseMessage(event.data, reader.server);
        if (message === undefined) {
          if (!unreadable.admit()) cutOff(floodError(reader.server));
          else if (event.data.length === 0) reader.onEmpty?.();
          return;
        }
        unreadable.refill();
        if (message instanceof AmbitError) cutOff(message);
        else if (reader.onMessage(message)) {
          resolve();
          // Most servers end the stream now. The others are cut off.
          discardResponse(response);
        }
      },
      onTooLong: () => cutOff(new AmbitError('UPSTREAM_TOO_LARGE')),
    });
    const breakOff = () => (reader.canResume?.() ? resolve() : reject(brokenOffError(reader.server)));
    response.on('end', resolve);
    response.on('error', breakOff);
    response.on('close', breakOff);
  });
}

function parseMessage(bytes: Buffer, server: string): Message | AmbitError | undefined {
  try {
    return readServerMessage(bytes);
  } catch (fault) {
    if (!(fault instanceof MessageError)) throw fault;
    return fault.isTooDense ? tooDenseError(server, fault) : undefined;
  }
}

function floodError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" was disconnected: it sent too many events that are not MCP messages.`,
  });
}

export function brokenOffError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" closed the connection before its answer was complete.`,
    hint: `Try again. If it keeps failing, check the log of the server, and proxies between it and Ambit that close long requests.`,
  });
}

const holders = new WeakMap<Readable, Set<string>>();

interface SseEvent {
  /** The type of the event; empty for an ordinary message. */
  readonly name: string;
  readonly data: Buffer;
}

interface SseListener {
  readonly maxBytes: number;
  onEvent(event: SseEvent): void;
  /** Called at the end of each event with an id, before `onEvent`. Undefined: the stream cannot be resumed here. */
  onEventId?(id: string | undefined): void;
  /** The server wants a client to wait this long before it reconnects. */
  onRetry?(ms: number): void;
  onTooLong(): void;
}

const newline = 0x0a;
const space = 0x20;
/** The cost of a line beside its text: an event of a million empty lines is not small. */
const lineCost = 128;
/** An id is sent back in a header, so it must be short and fit into one. */
const sendableId = /^[\x20-\x7e\x80-\xff]{1,2048}$/;

/**
 * Reads server-sent events as bytes (WHATWG HTML, "Server-sent events"), so that a large message is not decoded twice. A
 * flood of lines is read in parts, so that other sessions are served in between. `onTooLong` ends the reading.
 */
function readSse(stream: Readable, options: SseListener): void {
  const opening = createPieceBuffer();
  let isOpen = false;
  let data: Buffer[] = [];
  let size = 0;
  let name = '';
  let id: string | undefined;
  let isDone = false;
  let hasEnded = false;
  const waiting: Buffer[] = [];
  const turns = createTurnBudget(processChunks);

  function handleLine(text: Buffer): void {
    if (text.length === 0) {
      const event = { lines: data, name, id };
      data = [];
      name = '';
      id = undefined;
      size = 0;
      // An id counts only at the end of its event: a stream that breaks off before is resumed before that event.
      if (event.id !== undefined) options.onEventId?.(sendableId.test(event.id) ? event.id : undefined);
      if (event.lines.length > 0) options.onEvent({ name: event.name, data: joinLines(event.lines) });
      return;
    }
    const colon = text.indexOf(0x3a);
    if (colon === 0) return;
    const field = text.toString('latin1', 0, colon === -1 ? text.length : colon);
    let from = colon === -1 ? text.length : colon + 1;
    if (text[from] === space) from++;
    if (field === 'data') {
      data.push(text.subarray(from));
      size += lineCost;
    } else if (field === 'id') id = text.toString('latin1', from);
    else if (field === 'event') name = text.toString('latin1', from);
    else if (field === 'retry') readRetry(text.toString('latin1', from), options);
  }

  /** Splits a chunk into lines. Returns the rest when the time for one part is used up. */
  function splitLines(chunk: Buffer): Buffer | undefined {
    let from = 0;
    while (!isDone) {
      if (!hasEnded && turns.isSpent()) return chunk.subarray(from);
      const at = chunk.indexOf(newline, from);
      if (at === -1) break;
      const piece = chunk.subarray(from, at);
      turns.spend(piece.length);
      if (isOpen) {
        opening.add(piece);
        isOpen = false;
        handleLine(withoutReturn(Buffer.concat(opening.take())));
      } else handleLine(withoutReturn(piece));
      from = at + 1;
    }
    if (from < chunk.length) {
      opening.add(chunk.subarray(from));
      isOpen = true;
    }
    return undefined;
  }

  function processChunks(): void {
    while (waiting.length > 0 && !isDone) {
      const rest = splitLines(waiting.shift() as Buffer);
      if (rest === undefined) continue;
      waiting.unshift(rest);
      holdStream(stream, 'turn');
      return;
    }
    releaseStream(stream, 'turn');
  }

  stream.on('data', (chunk: Buffer) => {
    if (isDone) return;
    size += chunk.length;
    if (size > options.maxBytes + 65536) {
      isDone = true;
      options.onTooLong();
      return;
    }
    waiting.push(chunk);
    if (waiting.length === 1) processChunks();
  });
  stream.on('end', () => {
    hasEnded = true;
    processChunks();
  });
  stream.on('close', () => {
    isDone = true;
  });
}

function withoutReturn(text: Buffer): Buffer {
  return text[text.length - 1] === 0x0d ? text.subarray(0, -1) : text;
}

function readRetry(text: string, { onRetry }: SseListener): void {
  if (/^\d{1,9}$/.test(text)) onRetry?.(Number(text));
}

function joinLines(lines: Buffer[]): Buffer {
  if (lines.length === 1) return lines[0] as Buffer;
  return Buffer.concat(lines.flatMap((each, index) => (index === 0 ? [each] : [Buffer.from('\n'), each])));
}

/** Pauses a stream for one reason. It resumes when the last reason is released. */
export function holdStream(stream: Readable, reason: string): void {
  const reasons = holders.get(stream) ?? new Set();
  holders.set(stream, reasons.add(reason));
  stream.pause();
}

export function releaseStream(stream: Readable, reason: string): void {
  const reasons = holders.get(stream);
  if (reasons?.delete(reason) && reasons.size === 0) stream.resume();
}

export function isHeld(stream: Readable, reason: string): boolean {
  return holders.get(stream)?.has(reason) ?? false;
}
