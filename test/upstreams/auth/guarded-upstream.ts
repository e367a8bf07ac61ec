import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { startEchoUpstream } from '../../gateway/echoing-upstream.ts';

export interface GuardedUpstream {
  readonly url: string;
  /** The bearer tokens of the requests that were let in. */
  readonly tokens: string[];
  /** What it was asked by those it let in. */
  readonly bodies: string[];
  /** Every `authorization` that came, let in or not. */
  readonly offered: (string | undefined)[];
  /** What it says of itself; changed by tests that lie. */
  metadata: Record<string, unknown>;
  /** Tokens it does not take, whatever they say. */
  readonly refused: Set<string>;
  close(): Promise<void>;
}

/** An MCP server over HTTP that lets nobody in without a token of its authorization server, made for it. */
export async function guardedUpstream(issuer: string, jwksUri: string): Promise<GuardedUpstream> {
  const inner = await startEchoUpstream((method, params) =>
    method === 'tools/list'
      ? {
          resultType: 'complete',
          ttlMs: 0,
          cacheScope: 'private',
          tools: ['read', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })),
        }
      : method === 'tools/call'
        ? { resultType: 'complete', content: [{ type: 'text', text: `done: ${String(params['name'])}` }] }
        : undefined,
  );
  const keys = createRemoteJWKSet(new URL(jwksUri));
  const metadataPath = '/.well-known/oauth-protected-resource/mcp';

  async function judge(
    request: IncomingMessage,
    body: string,
  ): Promise<{ status: number; error?: string } | undefined> {
    const { authorization } = request.headers;
    upstream.offered.push(authorization);
    const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1];
    if (token === undefined) return { status: 401 };
    if (upstream.refused.has(token)) return { status: 401, error: 'invalid_token' };
    try {
      const { payload } = await jwtVerify(token, keys, { issuer, audience: upstream.url });
      const scopes = String(payload['scope'] ?? '').split(' ');
      if (body.includes('"name":"write"') && !scopes.includes('write'))
        return { status: 403, error: 'insufficient_scope' };
      upstream.tokens.push(token);
      upstream.bodies.push(body);
      return undefined;
    } catch {
      return { status: 401, error: 'invalid_token' };
    }
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === metadataPath) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(upstream.metadata));
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks).toString();
    const refusal = await judge(request, body);
    if (refusal !== undefined) {
      const scope = refusal.error === 'insufficient_scope' ? 'write' : 'read';
      const error = refusal.error === undefined ? '' : `error="${refusal.error}", `;
      const where = new URL(metadataPath, upstream.url).href;
      const challenge = `Bearer ${error}scope="${scope}", resource_metadata="${where}"`;
      response.writeHead(refusal.status, { 'www-authenticate': challenge }).end();
      return;
    }
    const { host: _, connection: __, 'content-length': ___, ...headers } = request.headers as Record<string, string>;
    const answer = await fetch(inner.url, { method: 'POST', headers, body });
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
    response.end(await answer.text());
  }

  const server = createServer((request, response) => {
    serve(request, response).catch((error) => response.writeHead(500).end(String(error)));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const upstream: GuardedUpstream = {
    url,
    tokens: [],
    bodies: [],
    offered: [],
    refused: new Set(),
    metadata: { resource: url, authorization_servers: [issuer], scopes_supported: ['read', 'write'] },
    async close() {
      await inner.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return upstream;
}
