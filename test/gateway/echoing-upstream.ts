import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll } from 'vitest';
import {
  answerCorrectly,
  sendJson,
  startUpstream,
  type Upstream,
} from '../journeys/hostile/upstreams/start-http-upstream.ts';

export interface EchoingUpstream {
  readonly url: string;
  /** The headers of all requests so far, with the method that each asked for. */
  readonly asked: { readonly method: string; readonly headers: IncomingHttpHeaders }[];
  close(): Promise<void>;
}

type Answer = (
  method: string,
  params: Record<string, unknown>,
  headers: IncomingHttpHeaders,
  id: unknown,
) => object | undefined | Promise<object | undefined>;

/** A modern server over HTTP whose tools say what it was sent; `answer` may say something else, and messages before it. */
export async function startEchoUpstream(answer: Answer = () => undefined): Promise<EchoingUpstream> {
  const asked: { method: string; headers: IncomingHttpHeaders }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', async () => {
      const body = Buffer.concat(chunks).toString();
      const { id, method = '', params = {} } = (body === '' ? {} : JSON.parse(body)) as Record<string, never>;
      asked.push({ method, headers: request.headers });
      if (id === undefined) return response.writeHead(202).end();
      const result = (await answer(method, params, request.headers, id)) ?? answerByDefault(method, request.headers);
      const { saysFirst, ...rest } = result as { readonly saysFirst?: readonly object[] };
      const bytes = JSON.stringify({ jsonrpc: '2.0', id, result: rest });
      if (saysFirst !== undefined) {
        const events = [...saysFirst.map((each) => JSON.stringify({ jsonrpc: '2.0', ...each })), bytes];
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        return response.end(events.map((event) => `data: ${event}\n\n`).join(''));
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end(bytes);
    });
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}

const hints = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };

function answerByDefault(method: string, headers: IncomingHttpHeaders): object {
  if (method === 'server/discover') return { ...hints, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };
  if (method === 'tools/list') {
    return { ...hints, tools: [{ name: `for-${headers.authorization ?? 'nobody'}`, inputSchema: { type: 'object' } }] };
  }
  const { authorization = '', 'x-api-key': key = '' } = headers;
  return { resultType: 'complete', content: [{ type: 'text', text: `${authorization}|${key}` }] };
}

/** A server for all tests of a file, whose tool `say` repeats its words. */
export function createSayingUpstream(): () => Upstream {
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream({
      say: ({ id, params }, response) => sendJson(response, answerCorrectly(id, String(params.arguments?.['words']))),
    });
  });
  afterAll(() => upstream.stop());
  return () => upstream;
}
