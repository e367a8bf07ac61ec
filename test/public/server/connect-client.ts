import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { InMemoryTransport as InMemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { WebStandardStreamableHTTPServerTransport as TransportV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  type AuthInfo,
  createMcpHandler,
  InMemoryTransport,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { OwnOptions, ServerSessions } from '../../../src/public/server/index.ts';
import { buildServer, type Sdk } from './build-server.ts';

export interface Answer {
  readonly isError: boolean;
  readonly text: string;
  readonly value: unknown;
  readonly error: { readonly code: string; readonly rule?: string; readonly retryAfterMs?: number } | undefined;
  readonly session: { readonly sessionId: string; readonly correlationId: string } | undefined;
}

export interface Caller {
  call(name: string, args?: Record<string, unknown>, meta?: object): Promise<Answer>;
  readonly client: Client;
  close(): Promise<void>;
}

type BuildServer = typeof buildServer;

/** Some tools answer in words. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function createCaller(client: Client): Caller {
  return {
    client,
    async call(name, args, meta) {
      const params = { name, ...(args && { arguments: args }), ...(meta && { _meta: meta }) };
      const { isError, content, _meta } = (await client.callTool(params as never)) as never as {
        isError?: boolean;
        content: { text: string }[];
        _meta?: { 'ambit/error'?: Answer['error']; 'ambit/session'?: Answer['session'] };
      };
      const text = content[0]?.text ?? '';
      return {
        isError: isError === true,
        text,
        value: isError ? undefined : parseJson(text),
        error: _meta?.['ambit/error'],
        session: _meta?.['ambit/session'],
      };
    },
    close: () => client.close(),
  };
}

/** A pipe, in this process: what looks to a server like stdio. */
export async function connectPipe(
  sdk: Sdk,
  given?: ServerSessions | OwnOptions,
  auth?: () => AuthInfo | undefined,
  build: BuildServer = buildServer,
): Promise<Caller> {
  const server = build(sdk, given);
  const pair = sdk === 'v1' ? InMemoryV1.createLinkedPair() : InMemoryTransport.createLinkedPair();
  const [near, far] = pair as [InMemoryTransport, InMemoryTransport];
  const client = new Client({ name: 'pipe', version: '1' });
  const send = far.send.bind(far);
  if (auth !== undefined) far.send = (message) => send(message, { authInfo: auth() } as Parameters<typeof send>[1]);
  await server.connect(near);
  await client.connect(far);
  return createCaller(client);
}

type Fetch = (request: Request, auth: AuthInfo | undefined) => Promise<Response>;

/** A new server for each request, as v2 serves both eras without sessions of the transport. */
export function serveStateless(given: ServerSessions | OwnOptions, build: BuildServer = buildServer): Fetch {
  const handler = createMcpHandler(() => build('v2', given));
  return (request, authInfo) => handler.fetch(request, authInfo && { authInfo });
}

/** A transport session for each client of the handshake era. */
export function serveSessions(
  given: ServerSessions | OwnOptions,
  sdk: Sdk = 'v2',
  build: BuildServer = buildServer,
): Fetch {
  const modern = createMcpHandler(() => build('v2', given), { legacy: 'reject' });
  const transports = new Map<string, WebStandardStreamableHTTPServerTransport>();
  return async (request, authInfo) => {
    const options = authInfo && { authInfo };
    if (!(await isLegacyRequest(request.clone()))) return modern.fetch(request, options);
    const known = transports.get(request.headers.get('mcp-session-id') ?? '');
    if (known !== undefined) return known.handleRequest(request, options);
    const Transport = sdk === 'v1' ? TransportV1 : WebStandardStreamableHTTPServerTransport;
    const transport = new Transport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (id) => void transports.set(id, transport),
    }) as WebStandardStreamableHTTPServerTransport;
    await build(sdk, given).connect(transport);
    return transport.handleRequest(request, options);
  };
}

/** A real client over HTTP without a socket; `auth` is what stood before the server and verified the credential. */
export async function connectHttp(
  fetch: Fetch,
  era: 'modern' | 'handshake',
  auth?: () => AuthInfo | undefined,
  headers: Record<string, string> = {},
): Promise<Caller & { readonly transport: StreamableHTTPClientTransport }> {
  const transport = new StreamableHTTPClientTransport(new URL('http://kept.test/mcp'), {
    fetch(url, init) {
      const request = new Request(url, init as RequestInit);
      for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
      return fetch(request, auth?.());
    },
  });
  const mode = era === 'modern' ? 'auto' : 'legacy';
  const client = new Client({ name: 'http', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return { ...createCaller(client), transport };
}

export function createAuth(name: string, scopes: string[] = []): () => AuthInfo {
  return () => ({ token: `token-of-${name}`, clientId: 'client', scopes, extra: { user: name } });
}
