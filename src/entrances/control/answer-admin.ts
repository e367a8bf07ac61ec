import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AdminAnswer, handleAdmin, problem } from '../../admin/handle.ts';
import { eventsPath } from '../../admin/routes.ts';
import { AmbitError } from '../../errors.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { passOver, readBody } from '../http/read-body.ts';
import { serveEvents } from '../http/serve-events.ts';

const bodyLimit = 256 * 1024;
const mostReaders = 64;

export interface AdminDoor {
  /** Whoever comes this far may do everything. What somebody does `by` a credential is written down. */
  answer(request: IncomingMessage, response: ServerResponse, by?: string): Promise<void>;
  /** Ends the streams that stand open. */
  close(): void;
}

/** The control API, whatever carries it. `address` is where clients reach the gateway, once it listens. */
export function createAdminDoor(gateway: Gateway, address: () => string | undefined): AdminDoor {
  const readers = new Set<ServerResponse>();

  async function events(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.resume();
    if (readers.size >= mostReaders) {
      const { row, code, hint } = new AmbitError('OVERLOADED');
      respond(response, problem(row.http, code, 'Too many are reading the events already.', hint));
      return;
    }
    readers.add(response);
    await serveEvents(gateway.lifecycle, request, response).finally(() => readers.delete(response));
  }

  return {
    async answer(request, response, by) {
      const { method = 'GET', url: path = '/' } = request;
      if (method === 'GET' && path.split('?', 1)[0] === eventsPath) return events(request, response);
      const body = await readBody(request, bodyLimit, (listener) => response.on('close', listener));
      if (body === 'broken off') return;
      if (body === 'too long') {
        passOver(request);
        const detail = `The body is longer than ${bodyLimit} bytes.`;
        respond(response, problem(413, 'REQUEST_INVALID', detail, 'Send less.'));
        return;
      }
      const answer = await handleAdmin(gateway, { method, path, body }, address());
      const [asked = ''] = path.split('?', 1);
      if (by !== undefined && method !== 'GET') gateway.controlled({ by, method, path: asked, status: answer.status });
      respond(response, answer);
    },
    close() {
      for (const response of readers) response.end();
    },
  };
}

export function respond(
  response: ServerResponse,
  { status, body, problem: isProblem }: AdminAnswer,
  headers: Readonly<Record<string, string>> = {},
): void {
  const bytes = body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body));
  const type = isProblem ? 'application/problem+json' : 'application/json';
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers }).end(bytes);
}
