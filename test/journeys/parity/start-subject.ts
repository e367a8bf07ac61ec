import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { InMemoryTransport as InMemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { WebStandardStreamableHTTPServerTransport as HttpV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import {
  createMcpHandler,
  WebStandardStreamableHTTPServerTransport as HttpV2,
  InMemoryTransport,
  isLegacyRequest,
} from '@modelcontextprotocol/server';
import { createServerSessions, type ServerSessions } from 'ambit-mcp/server';
import { createGateway, type EmbeddedGateway } from '../../../src/index.ts';
import type { Cell } from './cells.ts';
import { buildParityServer } from './parity-tools.js';

/** A client of a subject. Tools of the server have the same names everywhere. */
export interface SubjectClient {
  readonly client: Client;
  call(name: string, args?: Record<string, unknown>): Promise<CallAnswer>;
  close(): Promise<void>;
}

export interface CallAnswer {
  /** The blocks before the last one: a policy block, if there is one. */
  readonly before: { readonly text: string; readonly _meta?: Record<string, unknown> }[];
  readonly text: string;
  readonly value: never;
  readonly code: string | undefined;
  readonly meta: Record<string, unknown>;
}

export interface Subject {
  readonly folders: { readonly garden: string; readonly kitchen: string };
  /** Connects as a user. The client announces the workspace in the way of its era. */
  connect(user: string, announced?: Record<string, unknown>, clientName?: string): Promise<SubjectClient>;
  close(): Promise<void>;
}

type Transport = Parameters<Client['connect']>[0];

export const totalCalls = 24;
const shared = {
  policies: [
    { name: 'require-tests', text: 'All code changes must include tests.', scope: 'org', mode: 'prepend' as const },
    { name: 'sign-off', text: 'End with your name.', scope: 'user:ada', mode: 'append' as const },
  ],
  objectives: [{ text: 'Be done by noon', scope: 'org' }],
};
const quotas = { session: { totalCalls } };
const toolPrefix = { gateway: 'kept__', library: '' } as const;
const scriptPath = join(import.meta.dirname, 'parity-server.js');

/** Starts the same server, with the same settings, behind a gateway or alone. */
export async function startSubject(cell: Cell): Promise<Subject> {
  const base = await realpath(await mkdtemp(join(tmpdir(), 'ambit-parity-')));
  const folders = { garden: join(base, 'garden'), kitchen: join(base, 'kitchen') };
  for (const folder of Object.values(folders)) await mkdir(folder);
  const started = cell.subject === 'gateway' ? await startGateway(cell, base, folders) : startLibrary(cell, folders);
  const clients: SubjectClient[] = [];
  return {
    folders,
    async connect(user, announced, clientName = 'parity') {
      const transport = await started.openTransport(user);
      announceWorkspace(transport, cell.era, announced);
      const mode = cell.era === 'modern' ? 'auto' : 'legacy';
      const client = new Client({ name: clientName, version: '1' }, { versionNegotiation: { mode } });
      await client.connect(transport);
      const connected = createSubjectClient(client, toolPrefix[cell.subject]);
      clients.push(connected);
      return connected;
    },
    async close() {
      for (const client of clients) await client.close();
      await started.close();
      await rm(base, { recursive: true, force: true });
    },
  };
}

interface StartedSubject {
  openTransport(user: string): Promise<Transport>;
  close(): Promise<void>;
}

async function startGateway(
  { sdk, transport }: Cell,
  base: string,
  folders: Subject['folders'],
): Promise<StartedSubject> {
  const gateway: EmbeddedGateway = await createGateway({
    dataDir: join(base, 'data'),
    log: { info() {}, warn() {} },
    config: {
      version: 1,
      store: { kind: 'memory' },
      sessions: { defaultTrust: 'direct', allowDirect: 'always', includeMeta: true },
      quotas,
      governance: shared,
      workspaces: { garden: { path: folders.garden }, kitchen: { path: folders.kitchen } },
      servers: { kept: { command: process.execPath, args: [scriptPath, sdk] } },
    },
  });
  if (transport === 'stdio') {
    return {
      async openTransport(userId) {
        const { id } = await gateway.createSession({ userId });
        return gateway.connect(id) as Transport;
      },
      close: gateway.close,
    };
  }
  const { url } = await gateway.listen({ port: 0 });
  const keys = new Map<string, string>();
  return {
    async openTransport(userId) {
      if (!keys.has(userId)) {
        await gateway.people.users.add(userId);
        keys.set(userId, (await gateway.people.keys.create({ userId })).key);
      }
      const requestInit = { headers: { Authorization: `Bearer ${keys.get(userId)}` } };
      return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
    },
    close: gateway.close,
  };
}

function startLibrary({ sdk, transport, era }: Cell, folders: Subject['folders']): StartedSubject {
  const options = {
    tools: true,
    files: true,
    includeMeta: true,
    quotas,
    governance: shared,
    workspaces: Object.entries(folders).map(([id, path]) => ({ id, path })),
    log: { info() {}, warn() {} },
    context: { env: {} },
  };
  const all: ServerSessions[] = [];
  const close = async () => {
    for (const sessions of all) await sessions.close();
  };
  if (transport === 'stdio') {
    return {
      async openTransport(userId) {
        const sessions = createServerSessions({ ...options, local: { userId, trustLevel: 'direct' } });
        all.push(sessions);
        const pair = sdk === 'v1' ? InMemoryV1.createLinkedPair() : InMemoryTransport.createLinkedPair();
        const [near, far] = pair as [InMemoryTransport, InMemoryTransport];
        await buildParityServer(sdk, sessions).connect(near);
        return far;
      },
      close,
    };
  }
  const identify = (key: string) => ({ userId: key.replace('key-of-', ''), trustLevel: 'direct' as const });
  const sessions = createServerSessions({ ...options, identify });
  all.push(sessions);
  const serve = era === 'modern' ? serveModern(sessions) : serveHandshake(sdk, sessions);
  return {
    openTransport: async (userId) =>
      new StreamableHTTPClientTransport(new URL('http://library.test/mcp'), {
        requestInit: { headers: { Authorization: `Bearer key-of-${userId}` } },
        fetch: (url, init) => serve(new Request(url, init as RequestInit)),
      }),
    close,
  };
}

type Serve = (request: Request) => Promise<Response>;

function serveModern(sessions: ServerSessions): Serve {
  const handler = createMcpHandler(() => buildParityServer('v2', sessions));
  return (request) => handler.fetch(request);
}

/** A transport session for each client, which is how both SDKs serve the handshake era. */
function serveHandshake(sdk: Cell['sdk'], sessions: ServerSessions): Serve {
  const transports = new Map<string, HttpV2>();
  return async (request) => {
    // A client that can speak both eras asks for the modern one first.
    if (!(await isLegacyRequest(request.clone()))) return new Response(null, { status: 400 });
    const known = transports.get(request.headers.get('mcp-session-id') ?? '');
    if (known !== undefined) return known.handleRequest(request);
    const Http = sdk === 'v1' ? HttpV1 : HttpV2;
    const transport = new Http({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (id) => void transports.set(id, transport),
    }) as HttpV2;
    await buildParityServer(sdk, sessions).connect(transport);
    return transport.handleRequest(request);
  };
}

/** Adds `_meta` to the handshake, or to every request of a modern client. */
function announceWorkspace(transport: Transport, era: Cell['era'], meta: Record<string, unknown> | undefined): void {
  if (meta === undefined) return;
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    const request = message as { id?: unknown; method?: string; params?: { _meta?: object } };
    const isMeant =
      request.id !== undefined && (era === 'modern' ? request.method !== undefined : request.method === 'initialize');
    if (!isMeant) return send(message, options);
    const params = { ...request.params, _meta: { ...request.params?._meta, ...meta } };
    return send({ ...request, params } as typeof message, options);
  };
}

function createSubjectClient(client: Client, prefix: string): SubjectClient {
  return {
    client,
    async call(name, args = {}) {
      const tool = name.startsWith('session_') ? name : `${prefix}${name}`;
      const result = (await client.callTool({ name: tool, arguments: args })) as {
        isError?: boolean;
        content: CallAnswer['before'];
        _meta?: Record<string, { code?: string }>;
      };
      const text = result.content.at(-1)?.text ?? '';
      return {
        before: result.content.slice(0, -1),
        text,
        value: (result.isError || !/^["[{\d]/.test(text) ? undefined : JSON.parse(text)) as never,
        code: result._meta?.['ambit/error']?.code,
        meta: result._meta ?? {},
      };
    },
    close: () => client.close(),
  };
}
