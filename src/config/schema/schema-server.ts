import { z } from 'zod';
import { parseHostAndPort } from '../../lib/net/host-and-port.ts';
import { permissionPattern } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import {
  envMap,
  filePath,
  httpUrl,
  isMap,
  lifeSeconds,
  mapOf,
  oneOrMore,
  osText,
  positiveCount,
  secureUrl,
  serverName,
  textLine,
  timerSeconds,
  trustLevel,
} from './schema-parts.ts';

/** Headers that the gateway writes; a fixed value would break the exchange or forge the context. */
const ownHeaders = new Set(
  'accept connection content-length content-type host keep-alive mcp-protocol-version mcp-session-id te trailer transfer-encoding txn-token upgrade'.split(
    ' ',
  ),
);

/** Headers that the operator sets; their values may be secrets. */
export const headerMap = mapOf(
  { pattern: /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, rule: 'this is not a valid HTTP header name' },
  z.string().regex(/^[^\u0000-\u0008\u000a-\u001f\u007f]*$/, { error: 'expected text without line ends' }),
).superRefine(
  (found, context) => {
    const seen = new Set<string>();
    for (const name of Object.keys(found)) {
      const lower = name.toLowerCase();
      const message = ownHeaders.has(lower)
        ? 'this header is set by the gateway itself'
        : seen.has(lower)
          ? 'the same header twice; header names are not case-sensitive'
          : undefined;
      if (message !== undefined) context.addIssue({ code: 'custom', path: [name], message, params: { at: 'key' } });
      seen.add(lower);
    }
  },
  { when: ({ value }) => isMap(value) },
);

/** Tells whether an entry is a host and port. A wildcard needs at least two labels: `*.com` belongs to nobody. */
function isHostPattern(entry: string): boolean {
  const wide = entry.startsWith('*.');
  const read = parseHostAndPort(wide ? entry.slice(2) : entry);
  return read !== undefined && !(wide && (read.literal || !read.host.includes('.')));
}

/** The name of an image has no leading dash, so that no engine takes it for an option. */
const imageName = /^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$/;

const hostAndPort = z
  .string()
  .max(300)
  .refine(isHostPattern, {
    error: 'expected "host:port", such as "api.example.com:443", "*.example.com:443" or "[2001:db8::1]:443"',
  })
  .meta({ pattern: '^(?:[^:\\[\\]]+|\\[[0-9A-Fa-f:.]{2,45}\\]):[1-9][0-9]{0,4}$' });

const toolKeys = { pattern: /^[^\s\u0000-\u001f\u007f]{1,128}$/, rule: 'this is not a valid tool name' };
const toolPatterns = z.array(textLine(200)).max(1000);

const pushSchema = z.strictObject({
  sampling: z.boolean().default(false).describe('The server may request text from the model of the client (sampling).'),
  elicitation: z.boolean().default(true).describe('The server may ask the user for input (elicitation).'),
  roots: z.boolean().default(false).describe('The server may ask for the roots of the client.'),
});

const sandboxSchema = z.strictObject({
  image: z
    .string()
    .regex(imageName, { error: 'expected the name of a container image, such as "docker.io/library/node:22"' })
    .optional()
    .describe(
      'Container image to run the server in, with the programs of the image. The image must already exist on this machine.',
    ),
  network: z
    .array(hostAndPort)
    .max(1000)
    .default([])
    .describe('Hosts the server may connect to, as "host:port". Default: none.'),
  readable: z.array(filePath).max(1000).default([]).describe('Additional paths the server may read.'),
  writable: z.array(filePath).max(1000).default([]).describe('Additional paths the server may write.'),
  memoryMb: positiveCount(1_048_576)
    .default(512)
    .describe('Maximum memory of all processes of the server in one session, in MiB.'),
  pids: positiveCount(65_536)
    .default(64)
    .describe('Maximum number of processes and threads of the server in one session.'),
  cpus: z
    .number()
    .min(0.05)
    .max(1024)
    .default(1)
    .describe('CPU limit of the server in one session: 1 is one CPU, 0.5 is half a CPU.'),
  fileMb: positiveCount(1_048_576).default(1024).describe('Maximum size of a file that the server writes, in MiB.'),
  openFiles: positiveCount(1_048_576).default(1024).describe('Maximum number of open files per process.'),
  wallSeconds: timerSeconds
    .default(86_400)
    .describe('A process is ended after this many seconds, even if it is in use.'),
});

const toolsSchema = z.strictObject({
  allow: toolPatterns.default(['*']).describe('Patterns of the tools that may be used; all others are refused.'),
  deny: toolPatterns.default([]).describe('Patterns of the tools that may not be used; takes precedence over allow.'),
  permissions: mapOf(
    toolKeys,
    z.string().regex(permissionPattern, { error: 'expected a permission such as "notes:write"' }),
  )
    .default({})
    .describe('Permission that a session needs, by tool name or pattern.'),
  instead: mapOf(
    toolKeys,
    z.string().regex(/^session_[a-z_]{1,50}$/, { error: 'expected a tool of Ambit, such as "session_edit_file"' }),
  )
    .default({})
    .describe(
      'Map from tool name or pattern to the session tool of Ambit that replaces it. The tool description then recommends the replacement.',
    ),
  hideReplaced: z.boolean().default(false).describe('Hide and refuse the tools listed in "instead".'),
  confirm: toolPatterns.default([]).describe('Patterns of the tools that a person must confirm before each call.'),
});

const cacheSchema = mapOf(
  toolKeys,
  z.strictObject({
    ttlSeconds: lifeSeconds.describe('Seconds for which a result is reused.'),
    per: z.enum(['session', 'user', 'workspace']).default('session').describe('Who may get the same cached result.'),
  }),
);

const oauthSchema = z.strictObject({
  issuer: secureUrl
    .optional()
    .describe('Authorization server. Codes and secrets are sent to no other server. Required with clientId.'),
  clientId: textLine(2048).optional().describe('Client id of Ambit, if it was registered manually.'),
  clientSecretFile: filePath.optional().describe('File with the client secret for clientId.'),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/, { error: 'expected a scope, without spaces' }))
    .max(100)
    .optional()
    .describe('Scopes to request. Default: the scopes that the server asks for.'),
  hosts: z
    .array(hostAndPort)
    .max(100)
    .default([])
    .describe('Hosts ("host:port") of the authorization server that may be on a private network.'),
});

const transportNames = ['stdio', 'http', 'streamable-http', 'sse'] as const;
const serverKeys = z.strictObject({
  command: textLine(4096).optional().describe('Program to start. It must speak MCP over stdio.'),
  args: z.array(osText).max(10_000).optional().meta({ default: [] }).describe('Arguments of the program.'),
  env: envMap.optional().meta({ default: {} }).describe('Additional environment variables of the program.'),
  url: httpUrl.optional().describe('URL of a server that speaks MCP over HTTP.'),
  headers: headerMap.optional().meta({ default: {} }).describe('HTTP headers sent with each request to url.'),
  oauth: oauthSchema.optional().describe('How users log in to the server at url. Default: discovered from the server.'),
  type: z
    .enum(transportNames)
    .optional()
    .describe(
      'Transport, as other tools write it. Must match command or url. "sse" is the old HTTP+SSE transport; without it, the transport of a url is detected.',
    ),
  transport: z.enum(transportNames).optional().describe('Same as type.'),
  disabled: z.boolean().default(false).describe('Do not use this server.'),
  imported: textLine(4096)
    .optional()
    .describe(
      'Where the server was imported from, such as a file of another client. The server starts only if it is approved.',
    ),
  trust: oneOrMore(trustLevel)
    .optional()
    .describe('Trust levels of the sessions that may use the server. Default: both with command, [direct] with url.'),
  era: z
    .enum(['auto', 'modern', 'handshake'])
    .default('auto')
    .describe('Protocol era of the server; "auto" detects it.'),
  timeoutSeconds: timerSeconds.default(600).describe('A call fails after this many seconds without an answer.'),
  scope: z
    .enum(['call', 'session', 'user', 'workspace', 'shared'])
    .default('session')
    .describe('Who shares a process. A scope wider than "session" requires contextAware.'),
  contextAware: z.boolean().default(false).describe('The server separates sessions by the context of each call.'),
  context: z
    .enum(['full', 'pseudonymous', 'none'])
    .optional()
    .describe(
      'How much of the session context the server gets. Default: "full" with command, "pseudonymous" with url.',
    ),
  signature: z
    .enum(['process', 'public'])
    .optional()
    .describe(
      'How the context is signed: with a key that only the process has ("process"), or so that everybody can verify it with the public keys ("public"). Default: "process" with command and scope "call" or "session", "public" otherwise.',
    ),
  push: pushSchema
    .optional()
    .describe('Requests that the server may send to the client. Without this key, all are allowed.'),
  sandbox: sandboxSchema.optional().describe('Permissions and limits of the server process in sandboxed sessions.'),
  tools: toolsSchema.prefault({}).describe('Restrictions on the tools of the server.'),
  catalog: z
    .enum(['private', 'shared'])
    .default('private')
    .describe(
      'Who shares the cached tool lists: sessions of one user in one workspace ("private"), or all sessions of one trust level ("shared").',
    ),
  cache: cacheSchema.default({}).describe('Result cache, by tool name.'),
});

type ServerKeys = z.output<typeof serverKeys>;
type AddProblem = (key: keyof ServerKeys | undefined, message: string) => void;

function checkKeysTogether(server: Partial<ServerKeys>, complain: AddProblem): void {
  const { command, url } = server;
  if (command === undefined && url === undefined) complain(undefined, 'needs a command to start, or a url');
  if (command !== undefined && url !== undefined) complain('url', 'command and url cannot be used together');
  for (const key of ['type', 'transport'] as const) {
    const stated = server[key];
    if (stated === 'stdio' && command === undefined && url !== undefined) complain(key, '"stdio" needs a command');
    if ((stated?.endsWith('http') || stated === 'sse') && url === undefined && command !== undefined)
      complain(key, `"${stated}" needs a url`);
  }
  if (server.era === 'modern' && (server.type === 'sse' || server.transport === 'sse')) {
    complain('era', '"modern" cannot be used with the transport "sse"');
  }
  for (const key of ['args', 'env', 'sandbox'] as const) {
    if (server[key] !== undefined && command === undefined && url !== undefined)
      complain(key, 'only for servers with a command');
  }
  if (server.headers !== undefined && url === undefined && command !== undefined)
    complain('headers', 'only for servers with a url');
  if (server.oauth !== undefined && url === undefined && command !== undefined)
    complain('oauth', 'only for servers with a url');
  if (server.oauth?.clientId !== undefined && server.oauth.issuer === undefined) {
    complain('oauth', 'clientId needs issuer: the authorization server where it was registered');
  }
  if (server.oauth?.clientSecretFile !== undefined && server.oauth.clientId === undefined) {
    complain('oauth', 'clientSecretFile needs clientId');
  }
  if (server.scope !== undefined && server.scope !== 'session' && command === undefined && url !== undefined) {
    complain('scope', 'only for servers with a command; over HTTP every session has its own connection');
  }
  const wide = server.scope === 'user' || server.scope === 'workspace' || server.scope === 'shared';
  if (wide && server.contextAware !== true) {
    complain('scope', `"${server.scope}" shares a process between sessions; it needs contextAware: true`);
  }
  if (server.signature !== 'process') return;
  if (command === undefined && url !== undefined) {
    complain(
      'signature',
      '"process" is only for servers with a command: a server at a url could sign as other sessions; use "public"',
    );
  } else if (wide) {
    complain(
      'signature',
      `"process" needs the scope "call" or "session": with "${server.scope}" the process could sign as other sessions; use "public"`,
    );
  }
}

type CommonServerKeys = Omit<
  ServerKeys,
  | 'command'
  | 'args'
  | 'env'
  | 'sandbox'
  | 'url'
  | 'headers'
  | 'oauth'
  | 'type'
  | 'transport'
  | 'trust'
  | 'context'
  | 'signature'
  | 'imported'
> & {
  trust: TrustLevel[];
  context: 'full' | 'pseudonymous' | 'none';
  signature: 'process' | 'public';
  /** The origin of the entry: the operator, a project's own file, or an imported file of another tool. */
  source: ServerSource;
  /** The included or imported file. */
  file?: string;
};

export type ServerSource = 'operator' | 'project' | 'imported';

type StdioServer = CommonServerKeys & {
  transport: 'stdio';
  command: string;
  args: string[];
  env: Record<string, string>;
  sandbox: z.output<typeof sandboxSchema>;
  url?: undefined;
};

type OauthKeys = z.output<typeof oauthSchema>;

type HttpServer = CommonServerKeys & {
  transport: 'http';
  /** True for the old HTTP+SSE transport. */
  sse?: true;
  url: string;
  headers: Record<string, string>;
  oauth?: OauthKeys | undefined;
  command?: undefined;
};

function completeServer(server: ServerKeys): StdioServer | HttpServer {
  const { command, args, env, sandbox, url, headers, oauth, type, transport, trust, context, ...others } = server;
  const { signature, imported, ...own } = others;
  const rest = {
    ...own,
    ...(imported === undefined ? { source: 'operator' as const } : { source: 'imported' as const, file: imported }),
  };
  const levels = [...new Set(trust ?? (url === undefined ? (['direct', 'sandboxed'] as const) : ['direct' as const]))];
  if (url !== undefined) {
    return {
      ...rest,
      transport: 'http',
      ...(type === 'sse' || transport === 'sse' ? { sse: true as const } : {}),
      url,
      headers: headers ?? {},
      ...(oauth === undefined ? {} : { oauth }),
      trust: levels,
      context: context ?? 'pseudonymous',
      signature: 'public',
    };
  }
  return {
    ...rest,
    transport: 'stdio',
    command: command ?? '',
    args: args ?? [],
    env: env ?? {},
    sandbox: sandbox ?? sandboxSchema.parse({}),
    trust: levels,
    context: context ?? 'full',
    signature: signature ?? (own.scope === 'call' || own.scope === 'session' ? 'process' : 'public'),
  };
}

const serverSchema = serverKeys
  .meta({ oneOf: [{ required: ['command'] }, { required: ['url'] }] })
  .superRefine(
    (server, context) =>
      checkKeysTogether(server, (key, message) =>
        context.addIssue({ code: 'custom', path: key === undefined ? [] : [key], message }),
      ),
    { when: ({ value }) => isMap(value) },
  )
  .transform(completeServer);

export const serversSchema = mapOf(
  {
    pattern: serverName,
    rule: 'a server name has 1 to 40 characters of a-z, 0-9 and "-", and does not start or end with "-"',
    reserved: { ambit: 'this name is reserved for Ambit’s own tools' },
  },
  serverSchema,
);
