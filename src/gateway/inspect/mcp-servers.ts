import { resolve } from 'node:path';
import { isDotPath } from '../../config/load/configured-paths.ts';
import type { Provenance } from '../../context/for-tools/session-context.ts';
import { commandLine } from '../../package-paths.ts';
import type { Session } from '../../sessions/session.ts';
import type { ServerLaunch } from '../../upstreams/access/launch.ts';
import type { ResolvedServer } from '../../upstreams/access/resolution.ts';
import type { StdioServer } from '../../upstreams/definition.ts';
import type { Operator } from '../gateway.ts';
import { ownServer } from '../routing/own-server.ts';

/** An entry of `mcpServers`, as agent SDKs take it. */
export type McpServer =
  | { readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> }
  | { readonly type: 'http' | 'sse'; readonly url: string; readonly headers: Readonly<Record<string, string>> };

export type McpServers = Readonly<Record<string, McpServer>>;

/** A server as a session sees it: available, with the source of each variable, or the reason why not. */
export type ServerView =
  | {
      readonly name: string;
      readonly available: true;
      readonly env: Readonly<Record<string, Provenance>>;
      /** The reason why it cannot start, as far as that shows without starting it. */
      readonly problem?: string;
    }
  | { readonly name: string; readonly available: false; readonly rule: string; readonly reason: string };

export interface SessionServers {
  readonly mcpServers: McpServers;
  readonly servers: readonly ServerView[];
}

/** Describes a server. `narrowed` is given if it is used directly, where rules cannot be enforced. */
export function describeServer(resolved: ResolvedServer, narrowed?: (server: string) => boolean): ServerView {
  const { name } = resolved;
  if (resolved.server === undefined) return { name, available: false, ...resolved.removal };
  if (resolved.server.kind === 'http' && narrowed !== undefined && resolved.credentials) {
    const reason = 'it needs a credential of the user, and only the gateway sends it; use "--via gateway"';
    return { name, available: false, rule: 'credentials', reason };
  }
  if (resolved.server.kind === 'http' && narrowed?.(name)) {
    const reason = 'rules restrict its tools, and only the gateway applies them; use "--via gateway"';
    return { name, available: false, rule: `servers.${name}.tools, rules`, reason };
  }
  const { obstacle: problem } = resolved;
  const env = resolved.launch?.provenance ?? {};
  return { name, available: true, env, ...(problem === undefined ? {} : { problem }) };
}

/** Finds the servers of the HTTP+SSE transport, configured or detected. Agent SDKs do not detect it. */
export async function findSseServers(
  gateway: Pick<Operator, 'listServers'>,
  resolved: readonly ResolvedServer[],
): Promise<ReadonlySet<string>> {
  if (resolved.every(({ server }) => server?.kind !== 'http')) return new Set();
  const servers = await gateway.listServers();
  return new Set(servers.filter(({ transport }) => transport === 'sse').map(({ name }) => name));
}

/**
 * Creates the entries for an agent SDK that starts and calls the servers itself. Servers with restricted tools or
 * credentials are handed over only behind Ambit, so no credential is shown.
 */
export function createMcpServers(
  session: Session,
  resolved: readonly ResolvedServer[],
  paths: Operator['paths'],
  narrowed: (server: string) => boolean,
  sseServers: ReadonlySet<string>,
): McpServers {
  return mapAvailable(resolved, ({ name, server, launch, credentials }) => {
    if (server.kind === 'http' && (narrowed(name) || credentials)) return undefined;
    if (server.kind === 'http')
      return { type: sseServers.has(name) ? 'sse' : 'http', url: server.url.href, headers: server.headers };
    if (launch === undefined) return undefined;
    if (session.trustLevel === 'direct' && !narrowed(name) && !credentials)
      return { command: server.command, args: resolveDots(server.args, launch.cwd), env: launch.env };
    // The SDK must not be able to start the server outside of its limits.
    return { command: process.execPath, args: createRunArguments(session, server, launch, paths), env: launch.env };
  });
}

/** Creates entries with the addresses of the gateway, and one for Ambit's own tools if the session may use any. */
export function createGatewayServers(
  resolved: readonly ResolvedServer[],
  address: string,
  token: string,
  hasOwnTools: boolean,
): McpServers {
  const base = address.replace(/(?<!\/)\/+$/, '');
  const at = (name: string): McpServer => ({
    type: 'http',
    url: `${base}/mcp/${name}`,
    headers: { Authorization: `Bearer ${token}` },
  });
  return { ...mapAvailable(resolved, ({ name }) => at(name)), ...(hasOwnTools ? { [ownServer]: at(ownServer) } : {}) };
}

/** The SDK may start the server in another folder than the session's, so "." is spelled out. */
function resolveDots(args: readonly string[], cwd: string): string[] {
  return args.map((arg) => (isDotPath(arg) ? resolve(cwd, arg) : arg));
}

type AvailableServer = Extract<ResolvedServer, { readonly launch: ServerLaunch | undefined }>;

function mapAvailable(
  resolved: readonly ResolvedServer[],
  entry: (server: AvailableServer) => McpServer | undefined,
): McpServers {
  const pairs = resolved.flatMap((each) => {
    const made = each.server === undefined ? undefined : entry(each);
    return made === undefined ? [] : [[each.name, made] as const];
  });
  return Object.fromEntries(pairs);
}

/**
 * Creates the arguments of `ambit run --session …`. That command finds context and credentials itself; configured
 * variables are passed on by name.
 */
function createRunArguments(
  session: Session,
  server: StdioServer,
  launch: ServerLaunch,
  paths: Operator['paths'],
): string[] {
  const found: readonly string[] = ['injected', 'credential'];
  const named = Object.entries(launch.provenance).filter(([, origin]) => !found.includes(origin));
  // The SDK may start it in another folder.
  const [configFile, dataDir] = [resolve(paths.configFile), resolve(paths.dataDir)];
  const own = ['--config', configFile, '--data-dir', dataDir, '--name', server.name];
  const passed = named.flatMap(([variable]) => ['--env', variable]);
  return [commandLine, 'run', '--session', session.id, ...own, ...passed, '--', server.command, ...server.args];
}
