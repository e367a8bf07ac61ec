import { resolveArgs, resolveCommand } from '../config/resolve-args.ts';
import type { Config } from '../config/schema.ts';
import type { TrustLevel } from '../trust/trust-level.ts';

/** What may be asked of the person or model behind a session. */
export interface PushPermissions {
  readonly sampling: boolean;
  readonly elicitation: boolean;
  readonly roots: boolean;
}

interface Common {
  readonly name: string;
  readonly trust: readonly TrustLevel[];
  readonly era: 'auto' | 'modern' | 'handshake';
  readonly timeoutMs: number;
  readonly push: PushPermissions;
}

export interface StdioServer extends Common {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface HttpServer extends Common {
  readonly kind: 'http';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** An MCP server behind Ambit, as the configuration describes it. */
export type ServerDefinition = StdioServer | HttpServer;

export function defineServers(config: Config, configDir: string): ReadonlyMap<string, ServerDefinition> {
  const servers = new Map<string, ServerDefinition>();
  for (const [name, server] of Object.entries(config.servers)) {
    if (server.disabled) continue;
    const common = {
      name,
      era: server.era,
      timeoutMs: server.timeoutSeconds * 1000,
      push: server.push ?? { sampling: true, elicitation: true, roots: true },
    };
    if (server.command !== undefined) {
      servers.set(name, {
        ...common,
        kind: 'stdio',
        trust: server.trust ?? ['direct', 'sandboxed'],
        command: resolveCommand(server.command, configDir),
        args: resolveArgs(server.args ?? [], configDir),
        env: server.env ?? {},
      });
    } else if (server.url !== undefined) {
      servers.set(name, {
        ...common,
        kind: 'http',
        trust: server.trust ?? ['direct'],
        url: new URL(server.url),
        headers: server.headers ?? {},
      });
    }
  }
  return servers;
}

/** All that decides what a server is and says of itself, in one text; only ever compared or hashed. */
export function describing(server: ServerDefinition): string {
  if (server.kind === 'http') return JSON.stringify([server.url.href, server.headers]);
  return JSON.stringify([server.command, server.args, server.env]);
}
