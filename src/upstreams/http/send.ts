import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { AmbitError } from '../../errors.ts';
import type { HttpServer } from '../definition.ts';

const agentOptions = { keepAlive: true, maxSockets: 256, maxFreeSockets: 16, timeout: 60_000 };
const http = new HttpAgent(agentOptions);
const https = new HttpsAgent(agentOptions);

export interface Sending {
  readonly response: Promise<IncomingMessage>;
  abort(): void;
}

/**
 * One HTTP request to an upstream. The headers are those given here and the operator's, nothing of the caller's:
 * no bearer, no cookie, no forwarded anything. Redirects are not followed.
 */
export function send(
  server: HttpServer,
  method: 'POST' | 'GET' | 'DELETE',
  headers: Readonly<Record<string, string>>,
  body?: Buffer,
): Sending {
  const secure = server.url.protocol === 'https:';
  const request = (secure ? httpsRequest : httpRequest)(server.url, {
    method,
    agent: secure ? https : http,
    headers: {
      ...headers,
      ...server.headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
    },
  });
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    request.once('response', resolve);
    request.once('error', (error) => {
      reject(
        new AmbitError('UPSTREAM_FAILED', { what: `The server "${server.name}" cannot be reached.`, cause: error }),
      );
    });
  });
  // Aborting after the answer began must not become an unhandled error.
  response.catch(() => {});
  request.on('error', () => {});
  request.end(body);
  return { response, abort: () => request.destroy() };
}
