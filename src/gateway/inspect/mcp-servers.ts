import { resolve } from 'node:path';
import type { Provenance } from '../../context/for-tools/inject.ts';
import { commandLine } from '../../own-files.ts';
import type { Session } from '../../sessions/session.ts';
import type { Launch } from '../../upstreams/access/launch.ts';
import type { Resolved } from '../../upstreams/access/resolution.ts';
import type { StdioServer } from '../../upstreams/definition.ts';
import { ownServer } from '../routing/own-tools.ts';

/** An entry of `mcpServers`, as agent SDKs take it. */
export type McpServer =
  | { readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> }
  | { readonly type: 'http'; readonly url: string; readonly headers: Readonly<Record<string, string>> };

export type McpServers = Readonly<Record<string, McpServer>>;

/** How a session finds a server: in use, with where each of its variables comes from; or why not. */
export type ServerView =
  | { readonly name: string; readonly available: true; readonly env: Readonly<Record<string, Provenance>> }
  | { readonly name: string; readonly available: false; readonly rule: string; readonly reason: string };

export interface SessionServers {
  readonly mcpServers: McpServers;
  readonly servers: readonly ServerView[];
}

/** `narrowed` where a server is handed over as it is: then a rule can only hold where Ambit stands in between. */
export function serverViewOf(resolved: Resolved, narrowed?: (server: string) => boolean): ServerView {
  const { name } = resolved;
  if (resolved.server === undefined) return { name, available: false, ...resolved.removal };
  if (resolved.server.kind === 'http' && narrowed !== undefined && resolved.credentials) {
    const reason = 'it needs a credential of the user, which only the gateway sends; see "--via gateway"';
    return { name, available: false, rule: 'credentials', reason };
  }
  if (resolved.server.kind === 'http' && narrowed?.(name)) {
    const reason = 'its tools are narrowed by rules, which hold at the gateway only; see "--via gateway"';
    return { name, available: false, rule: `servers.${name}.tools, rules`, reason };
  }
  return { name, available: true, env: resolved.launch?.provenance ?? {} };
}

interface GatewayPaths {
  readonly configFile: string;
  readonly dataDir: string;
}

/**
 * The servers of a session for an agent SDK that starts and calls them itself. Of those whose tools are `narrowed`, and
 * of those that are given a credential, only what Ambit stands in front of is handed over: no credential is shown.
 */
export function mcpServersOf(
  session: Session,
  resolved: readonly Resolved[],
  paths: GatewayPaths,
  narrowed: (server: string) => boolean,
): McpServers {
  return mapAvailable(resolved, ({ name, server, launch, credentials }) => {
    if (server.kind === 'http' && (narrowed(name) || credentials)) return undefined;
    if (server.kind === 'http') return { type: 'http', url: server.url.href, headers: server.headers };
    if (launch === undefined) return undefined;
    if (session.trustLevel === 'direct' && !narrowed(name) && !credentials)
      return { command: server.command, args: server.args, env: launch.env };
    // Whoever starts it must not be able to start it outside of its bounds.
    return { command: process.execPath, args: createRunArguments(session, server, launch, paths), env: launch.env };
  });
}

/** The same servers, each at its own address of the gateway; beside them Ambit's own tools, where there are any for it. */
export function createGatewayServers(
  resolved: readonly Resolved[],
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

type AvailableServer = Extract<Resolved, { readonly launch: Launch | undefined }>;

function mapAvailable(
  resolved: readonly Resolved[],
  entry: (server: AvailableServer) => McpServer | undefined,
): McpServers {
  const pairs = resolved.flatMap((each) => {
    const made = each.server === undefined ? undefined : entry(each);
    return made === undefined ? [] : [[each.name, made] as const];
  });
  return Object.fromEntries(pairs);
}

/** `ambit run --session …`: it finds context and credentials by itself; what the configuration says is passed on by name. */
function createRunArguments(session: Session, server: StdioServer, launch: Launch, paths: GatewayPaths): string[] {
  const found: readonly string[] = ['injected', 'credential'];
  const named = Object.entries(launch.provenance).filter(([, origin]) => !found.includes(origin));
  // Whoever starts it may do so from another folder.
  const [configFile, dataDir] = [resolve(paths.configFile), resolve(paths.dataDir)];
  const own = ['--config', configFile, '--data-dir', dataDir, '--name', server.name];
  const passed = named.flatMap(([variable]) => ['--env', variable]);
  return [commandLine, 'run', '--session', session.id, ...own, ...passed, '--', server.command, ...server.args];
}
