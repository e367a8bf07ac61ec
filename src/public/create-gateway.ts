import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { PassThrough } from 'node:stream';
import { loadConfig } from '../config/load/load.ts';
import { locateDataDir } from '../config/load/locate.ts';
import { findListenProblems } from '../config/schema/listen-rules.ts';
import type { ConfigInput } from '../config/schema/schema.ts';
import { type HttpListener, listenHttp } from '../entrances/http/listen-http.ts';
import { serveStdio } from '../entrances/stdio/serve-stdio.ts';
import { AmbitError } from '../errors.ts';
import { openGateway } from '../gateway/assembly/open-gateway.ts';
import type { StageWatch } from '../gateway/compose.ts';
import type { DirectoryAdmin } from '../gateway/directory-admin.ts';
import { allServers } from '../gateway/exchange.ts';
import type { Gateway, GatewayOptions } from '../gateway/gateway.ts';
import type { CallExplanation } from '../gateway/inspect/explain-call.ts';
import {
  createMcpServers,
  describeServer,
  findSseServers,
  type SessionServers,
} from '../gateway/inspect/mcp-servers.ts';
import type { Log } from '../observability/log/log.ts';
import { createSafeLog } from '../observability/log/safe-log.ts';
import { createStderrLog } from '../observability/log/stderr-log.ts';
import { readLines } from '../protocol/lines/read-lines.ts';
import {
  type Restriction,
  type Session,
  type SessionDraft,
  type SessionView,
  sessionViewOf,
} from '../sessions/session.ts';
import type { CredentialAdmin } from '../upstreams/auth/credential-admin.ts';
import type { LoginAdmin } from '../upstreams/auth/login-admin.ts';
import type { EmbeddingProvider } from '../workspaces/codebase/embeddings.ts';

/** The `Transport` of the official SDK, in both its versions. */
export interface McpTransport {
  start(): Promise<void>;
  send(message: unknown): Promise<void>;
  close(): Promise<void>;
  onmessage?: (message: never) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
}

export interface CreateGatewayOptions {
  /** A configuration as an object, or the path of a file that holds one. */
  readonly config: ConfigInput | string;
  /** The folder for Ambit's files; by default the one that `ambit serve` would use. */
  readonly dataDir?: string;
  readonly log?: Log;
  /** Called for every stage a message passes, for measuring only. It costs some microseconds per call. */
  readonly watchStages?: StageWatch;
  /** Lets `session_codebase_search` find passages by meaning too. */
  readonly embeddings?: EmbeddingProvider;
}

export interface EmbeddedGateway {
  /** Opens a session within the configured bounds. The token is returned only here. */
  createSession(draft?: SessionDraft): Promise<SessionView & { readonly token: string }>;
  listSessions(): Promise<SessionView[]>;
  endSession(id: string): Promise<boolean>;
  /** Restricts a session and ends what is no longer allowed. A change that would widen it is refused. */
  restrictSession(id: string, change: Restriction): Promise<SessionView>;
  /** The servers a session may use, its context injected, for an agent SDK that starts and calls them itself. */
  resolve(sessionId: string): Promise<SessionServers>;
  /** Explains the answer to a call of `server__tool` with these arguments in this session: the rule and its sources. */
  explain(sessionId: string, tool: string, args?: Readonly<Record<string, unknown>>): Promise<CallExplanation>;
  /** Credentials of users for servers. Values can be written but never read. */
  readonly credentials: CredentialAdmin;
  /** Logins of users to servers over HTTP. Tokens cannot be read. */
  readonly logins: LoginAdmin;
  /** Users, teams, and the API keys that identify users over HTTP. */
  readonly people: DirectoryAdmin;
  /** Connects an MCP client of this process in that session, to all servers or to the named one. */
  connect(sessionId: string, server?: string): McpTransport;
  listen(address?: { readonly host?: string; readonly port?: number }): Promise<HttpListener>;
  /** Replaces the configuration without dropping calls; returns the servers that changed. */
  reload(config: ConfigInput | string): Promise<string[]>;
  close(): Promise<void>;
}

/** Runs the gateway in your process, with the same pipeline as `ambit serve`. */
export function createGateway(options: CreateGatewayOptions): Promise<EmbeddedGateway> {
  return embedGateway(options);
}

/** Like `createGateway`, with another list of stages, for tests. */
export async function embedGateway(
  options: CreateGatewayOptions & Pick<GatewayOptions, 'arrangeStages'>,
): Promise<EmbeddedGateway> {
  const log = createSafeLog(options.log ?? createStderrLog());
  const configFile = typeof options.config === 'string' ? resolve(options.config) : join(process.cwd(), '(config)');
  const dataDir = options.dataDir ?? locateDataDir({ env: process.env, configFile, home: homedir() });

  async function readConfig(config: ConfigInput | string) {
    const source =
      typeof config === 'string' ? { file: resolve(config) } : { text: JSON.stringify(config), file: configFile };
    const loaded = await loadConfig(source);
    for (const warning of loaded.warnings) log.warn('configuration', { warning });
    return loaded.config;
  }

  const { watchStages, arrangeStages, embeddings } = options;
  const config = await readConfig(options.config);
  const arranged = arrangeStages === undefined ? {} : { arrangeStages };
  const gateway = await openGateway({ config, configFile, dataDir, log, watchStages, embeddings, ...arranged });
  gateway.prepare();
  const listening = new Set<HttpListener>();

  async function loadSession(id: string): Promise<Session> {
    const session = await gateway.sessions.load(id);
    if (session === undefined) throw new AmbitError('SESSION_NOT_FOUND');
    return session;
  }

  return {
    async createSession(draft = {}) {
      const { record, token } = await gateway.openSession(draft, 'library');
      return { ...sessionViewOf(record), token };
    },
    async listSessions() {
      const views: SessionView[] = [];
      for (let after: string | null | undefined; after !== null; ) {
        const page = await gateway.sessions.list({}, { limit: 1000, ...(after === undefined ? {} : { after }) });
        views.push(...page.sessions.map(sessionViewOf));
        after = page.next;
      }
      return views;
    },
    endSession: (id) => gateway.sessions.end(id),
    async restrictSession(id, change) {
      await gateway.restrictSession(id, change);
      const record = await gateway.sessions.record(id);
      if (record === undefined) throw new AmbitError('SESSION_NOT_FOUND');
      return sessionViewOf(record);
    },
    async resolve(sessionId) {
      const session = await loadSession(sessionId);
      const resolved = gateway.explain(session);
      const { paths, narrowsTools } = gateway;
      const sseServers = await findSseServers(gateway, resolved);
      return {
        mcpServers: createMcpServers(session, resolved, paths, narrowsTools, sseServers),
        servers: resolved.map((each) => describeServer(each, narrowsTools)),
      };
    },
    async explain(sessionId, tool, args) {
      const given = args === undefined ? undefined : JSON.stringify(args);
      return gateway.explainCall(await loadSession(sessionId), tool, given);
    },
    credentials: gateway.credentials,
    logins: gateway.logins,
    people: gateway.people,
    connect: (sessionId, server = allServers) => createInProcessTransport(gateway, sessionId, server),
    async listen(address = {}) {
      const { listen, auth } = gateway.config;
      const { host = listen.host, port = listen.port } = address;
      const [problem] = findListenProblems({ ...auth, host, behindProxy: listen.behindProxy });
      if (problem !== undefined) throw new AmbitError('CONFIG_INVALID', { what: `host ${host}: ${problem.message}.` });
      const http = await listenHttp(gateway, { host, port }, log);
      listening.add(http);
      return http;
    },
    reload: async (config) => gateway.reload(await readConfig(config)),
    async close() {
      gateway.stopWaiting();
      await Promise.all([...listening].map((http) => http.close(1000)));
      await gateway.close();
    },
  };
}

/** Connects a client of the same process to the stdio entrance, through pipes in memory. */
export function createInProcessTransport(gateway: Gateway, sessionId: string, server: string): McpTransport {
  const input = new PassThrough();
  const output = new PassThrough();
  const transport: McpTransport = {
    async start() {
      if ((await gateway.sessions.load(sessionId)) === undefined) throw new AmbitError('SESSION_NOT_FOUND');
      readLines(output, {
        maxBytes: gateway.config.limits.messageBytes,
        onLine: (line) => transport.onmessage?.(JSON.parse(line.toString('utf8')) as never),
        onTooLong: () => transport.onerror?.(new Error('the answer is too large')),
        onRunaway: () => output.destroy(),
      });
      void serveStdio({ gateway, server, sessionId, input, output }).finally(() => transport.onclose?.());
    },
    async send(message) {
      input.write(`${JSON.stringify(message)}\n`);
    },
    async close() {
      input.end();
      output.destroy();
    },
  };
  return transport;
}
