import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../../errors.ts';
import { readServerMessage } from '../../../protocol/ambiguous-keys.ts';
import { createPieceBuffer } from '../../../protocol/lines/line-buffer.ts';
import { type Message, MessageError } from '../../../protocol/message.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { tooDenseError } from '../upstream-errors.ts';
import { notMcpError } from './http-errors.ts';
import { readSse } from './read-sse.ts';
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
