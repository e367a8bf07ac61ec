import { dirname } from 'node:path';
import { resolveArgs, resolveCommand } from '../config/load/configured-paths.ts';
import type { Config } from '../config/schema/schema.ts';
import type { ServerSource } from '../config/schema/schema-server.ts';
import type { Disclosure } from '../context/for-tools/call-context.ts';
import { hashValues, sha256Hex, toCanonicalJson } from '../lib/json/canonical-json.ts';
import type { Era } from '../protocol/channel.ts';
import type { TrustLevel } from '../rules/trust-level.ts';
import type { ResourceLimits } from '../sandbox/limits/limits.ts';
import type { Link } from './links/link.ts';
import type { ProcessScope } from './links/process-key.ts';

/** The questions that a server may ask the person or model behind a session. */
interface PushPermissions {
  readonly sampling: boolean;
  readonly elicitation: boolean;
  readonly roots: boolean;
}

/** The access of a server's process in a sandbox, beside its own files and the workspace. */
interface SandboxGrants {
  /** Hosts, as `host:port`. */
  readonly network: readonly string[];
  readonly readable: readonly string[];
  readonly writable: readonly string[];
  readonly limits: ResourceLimits;
  /** The container image of its programs in a sandbox. */
  readonly image?: string | undefined;
}

interface ServerBase {
  readonly name: string;
  readonly trust: readonly TrustLevel[];
  readonly era: 'auto' | 'modern' | 'handshake';
  readonly timeoutMs: number;
  readonly push: PushPermissions;
  /** How much it learns about the session. */
  readonly context: Disclosure;
  /** Whether its context is signed with a key of its process, or for everybody who has the public keys. */
  readonly signature: 'process' | 'public';
  /** `shared` when its lists are the same for everybody. */
  readonly catalog: 'private' | 'shared';
  /** The source of the definition. Only a server of the operator starts without an approval. */
  readonly source: ServerSource;
  /** The included or imported file; undefined for the operator's own servers. */
  readonly file: string | undefined;
  /** The folder that its relative paths start from. */
  readonly folder: string;
  /** The hash of everything that decides what runs or is called. Variables and headers enter as hashes. */
  readonly definitionHash: string;
}

export interface StdioServer extends ServerBase {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly scope: ProcessScope;
  readonly env: Readonly<Record<string, string>>;
  readonly sandbox: SandboxGrants;
}

interface OauthSettings {
  /** The only authorization server that its users may log in at. */
  readonly issuer?: string | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecretFile?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  /** Hosts of logins that may be on a private network, as `host:port`. */
  readonly hosts: readonly string[];
}

export interface HttpServer extends ServerBase {
  readonly kind: 'http';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** The transport, where the configuration names the old HTTP+SSE; otherwise it is detected. */
  readonly transport?: 'sse' | undefined;
  readonly oauth?: OauthSettings | undefined;
}

/** An MCP server behind Ambit, as the configuration describes it. */
export type ServerDefinition = StdioServer | HttpServer;

/** A server that runs in this process and is always there. */
export interface InProcessServer {
  readonly kind: 'in-process';
  readonly name: string;
  readonly source: 'operator';
  /** A link for the clients of each era. */
  readonly links: Readonly<Record<Era, Link>>;
}

/** Anything that a request can be forwarded to. */
export type Upstream = ServerDefinition | InProcessServer;

/** The ways to reach a server: `http` is Streamable HTTP, and `sse` the HTTP+SSE transport of MCP 2024-11-05. */
export const transports = ['stdio', 'http', 'sse'] as const;
export type Transport = (typeof transports)[number];

/** Names the transport of a server. `usesSse` is true for one that was found to speak HTTP+SSE. */
export function nameTransport(server: ServerDefinition, usesSse = false): Transport {
  return server.kind === 'http' && (usesSse || server.transport === 'sse') ? 'sse' : server.kind;
}

/** The audience of a server in the contexts that are made for it. */
export function contextAudience(server: ServerDefinition): string {
  return server.kind === 'http' ? server.url.href : `ambit:server:${server.name}`;
}

export function defineServers(config: Config, configDir: string): ReadonlyMap<string, ServerDefinition> {
  const servers = new Map<string, ServerDefinition>();
  for (const [name, server] of Object.entries(config.servers)) {
    if (server.disabled) continue;
    const folder = server.source === 'project' && server.file !== undefined ? dirname(server.file) : configDir;
    const common = {
      name,
      era: server.era,
      timeoutMs: server.timeoutSeconds * 1000,
      context: server.context,
      signature: server.signature,
      catalog: server.catalog,
      push: server.push ?? { sampling: true, elicitation: true, roots: true },
      source: server.source,
      file: server.file,
      folder,
    };
    if (server.command !== undefined) {
      const command = resolveCommand(server.command, folder);
      const args = resolveArgs({ command, args: server.args ?? [] }, folder);
      const env = server.env ?? {};
      const image = pickImage(server.sandbox);
      servers.set(name, {
        ...common,
        kind: 'stdio',
        scope: server.scope,
        trust: server.trust ?? ['direct', 'sandboxed'],
        command,
        args,
        env,
        sandbox: toSandboxGrants(server.sandbox),
        definitionHash: hashDefinition({ kind: 'stdio', command, args, env: hashValues(env), ...image }),
      });
    } else if (server.url !== undefined) {
      const url = new URL(server.url);
      const headers = server.headers ?? {};
      servers.set(name, {
        ...common,
        kind: 'http',
        ...(server.sse === true ? { transport: 'sse' as const, era: 'handshake' as const } : {}),
        trust: server.trust ?? ['direct'],
        url,
        headers,
        ...(server.oauth === undefined ? {} : { oauth: server.oauth }),
        definitionHash: hashDefinition({ kind: 'http', url: url.href, headers: hashValues(headers) }),
      });
    }
  }
  return servers;
}

function toSandboxGrants(sandbox: Omit<SandboxGrants, 'limits'> & ResourceLimits): SandboxGrants {
  const { network, readable, writable, memoryMb, pids, cpus, fileMb, openFiles, wallSeconds } = sandbox;
  const limits = { memoryMb, pids, cpus, fileMb, openFiles, wallSeconds };
  return { network, readable, writable, limits, ...pickImage(sandbox) };
}

const pickImage = ({ image }: Pick<SandboxGrants, 'image'>) => (image === undefined ? {} : { image });

function hashDefinition(definition: Readonly<Record<string, unknown>>): string {
  return sha256Hex(toCanonicalJson(definition));
}
