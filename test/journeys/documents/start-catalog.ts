import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { Client, type RequestOptions } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createGateway } from '../../../src/index.ts';
import { repository } from '../../structure/source-files.ts';
import { createLogLines, type LogLines } from './log-lines.ts';

export type SubjectName = 'library' | 'gateway';

/** Whom a client speaks for. `handshake` and `modern` are the eras of the protocol. */
export interface Who {
  readonly era?: 'handshake' | 'modern';
  readonly sessionId?: string;
  readonly userId?: string;
  readonly agentId?: string;
  readonly permissions?: readonly string[];
  readonly ttlSeconds?: number;
  readonly includeMeta?: boolean;
  /** Whether it works in the folder `images`. */
  readonly placed?: boolean;
  /** Whether the session outlives its process. */
  readonly kept?: boolean;
}

export interface Answer {
  readonly text: string;
  readonly code: string | undefined;
  readonly value: Record<string, unknown>;
  readonly structured: Record<string, unknown>;
  readonly meta: { readonly 'ambit/session'?: { readonly sessionId: string; readonly correlationId: string } };
}

export interface Catalog {
  /** As whoever opened the session knows it; undefined where the server makes one up. */
  readonly sessionId: string | undefined;
  readonly token: string | undefined;
  call(name: string, args?: object, meta?: object, options?: RequestOptions): Promise<Answer>;
  close(): Promise<void>;
}

export interface Subject {
  readonly log: LogLines;
  connect(who?: Who): Promise<Catalog>;
  /** Ends the process that keeps the session, and connects to the session again in a new one. */
  restart(catalog: Catalog, who: Who): Promise<Catalog>;
  stop(): Promise<void>;
}

const script = join(repository, 'examples', 'catalog-server', 'server.js');

function createClient({ era = 'handshake' }: Who): Client {
  const mode = era === 'modern' ? 'auto' : 'legacy';
  return new Client({ name: 'agent', version: '1' }, { versionNegotiation: { mode } });
}

export async function callTool(client: Client, name: string, args = {}, meta?: object, options?: RequestOptions) {
  const params = { name, arguments: args as Record<string, unknown>, ...(meta && { _meta: meta }) };
  const result = await client.callTool(params as never, options);
  const text = (result.content as { text: string }[])[0]?.text ?? '';
  return {
    text,
    // Behind a gateway, refusals of the server itself have their code only here.
    code: result.isError ? /^[A-Z_]+(?=:)/.exec(text)?.[0] : undefined,
    value: result.isError ? {} : JSON.parse(text),
    structured: (result.structuredContent ?? {}) as Answer['structured'],
    meta: (result._meta ?? {}) as Answer['meta'],
  };
}

/** The example by itself, started by its client. */
function startAlone(folder: string): Subject {
  const log = createLogLines();
  const clients = new Set<Client>();

  async function connect(who: Who = {}): Promise<Catalog> {
    const named = {
      STAC_MCP_SESSION_ID: who.sessionId,
      STAC_MCP_USER_ID: who.userId,
      STAC_MCP_AGENT_ID: who.agentId,
      STAC_MCP_PERMISSIONS: who.permissions?.join(','),
      STAC_MCP_SESSION_TTL_SECONDS: who.ttlSeconds?.toString(),
      STAC_MCP_SESSION_INCLUDE_META: who.includeMeta?.toString(),
      STAC_MCP_WORKSPACE_PATH: who.placed ? join(folder, 'images') : undefined,
      STAC_MCP_SESSION_STORE_DIR: who.kept ? join(folder, 'kept') : undefined,
    };
    const given = Object.entries(named).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const env = { PATH: process.env.PATH ?? '', ...Object.fromEntries(given) };
    const transport = new StdioClientTransport({ command: process.execPath, args: [script], env, stderr: 'pipe' });
    createInterface({ input: transport.stderr as Readable }).on('line', log.add);
    const client = createClient(who);
    clients.add(client);
    await client.connect(transport);
    return {
      sessionId: who.sessionId,
      token: undefined,
      call: (...call) => callTool(client, ...call),
      close: () => client.close(),
    };
  }

  return {
    log,
    connect,
    async restart(catalog, who) {
      await catalog.close();
      return connect(who);
    },
    async stop() {
      await Promise.all([...clients].map((client) => client.close()));
    },
  };
}

/** The same example behind a gateway, in one process for all sessions. */
async function startBehindGateway(folder: string): Promise<Subject> {
  const log = createLogLines();
  const write = (event: string, fields?: object) => log.add(JSON.stringify({ event, ...fields }));
  const dataDir = join(folder, 'data');
  // What stands in the environment of the server must not outweigh the gateway.
  const env = {
    STAC_MCP_SESSION_ID: 'named-by-the-operator',
    STAC_MCP_USER_ID: 'user-99999',
    STAC_MCP_PERMISSIONS: 'catalog:export',
    STAC_MCP_SESSION_STORE_DIR: join(folder, 'kept'),
  };
  const catalog = { command: process.execPath, args: [script], scope: 'shared' as const, contextAware: true, env };
  const workspaces = { images: { path: join(folder, 'images') } };
  const sessions = { defaultTrust: 'direct', includeMeta: true } as const;

  async function start() {
    const config = { version: 1 as const, sessions, servers: { catalog }, workspaces };
    const gateway = await createGateway({ config, dataDir, log: { info: write, warn: write, debug: write } });
    const { url } = await gateway.listen({ port: 0 });
    const token = await readFile(join(dataDir, 'admin-token'), 'utf8');
    const logs = await fetch(`${url}/api/v1/servers/catalog/logs?follow=true`, {
      headers: { authorization: `Bearer ${token.trim()}` },
    });
    const body = Readable.fromWeb(logs.body as never);
    // It ends with the gateway, in whatever way.
    const followed = finished(body).catch(() => {});
    createInterface({ input: body }).on('line', (line) => {
      if (line.startsWith('data: ')) log.add(JSON.parse(line.slice(6)).line ?? line);
    });
    return { ...gateway, close: () => gateway.close().then(() => followed) };
  }

  let gateway = await start();
  async function connectTo(id: string, token: string | undefined, who: Who): Promise<Catalog> {
    const client = createClient(who);
    await client.connect(gateway.connect(id) as never);
    return {
      sessionId: id,
      token,
      call: (name, ...rest) => callTool(client, name.startsWith('session_') ? name : `catalog__${name}`, ...rest),
      close: () => client.close(),
    };
  }

  return {
    log,
    async connect(who = {}) {
      const { userId, agentId, permissions, ttlSeconds } = who;
      const draft = { userId, agentId, permissions, ttlSeconds, workspaceId: who.placed ? 'images' : undefined };
      const { id, token } = await gateway.createSession(JSON.parse(JSON.stringify(draft)));
      return connectTo(id, token, who);
    },
    async restart({ sessionId, token }, who) {
      await gateway.close();
      gateway = await start();
      return connectTo(sessionId as string, token, who);
    },
    stop: () => gateway.close(),
  };
}

export async function startCatalog(name: SubjectName, folder: string): Promise<Subject> {
  await mkdir(join(folder, 'images'));
  return name === 'library' ? startAlone(folder) : startBehindGateway(folder);
}
