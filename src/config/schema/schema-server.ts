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
  { pattern: /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, rule: 'this is not the name of an HTTP header' },
  z.string().regex(/^[^\u0000-\u0008\u000a-\u001f\u007f]*$/, { error: 'expected text without line ends' }),
).superRefine(
  (found, context) => {
    const seen = new Set<string>();
    for (const name of Object.keys(found)) {
      const lower = name.toLowerCase();
      const message = ownHeaders.has(lower)
        ? 'this header is written by the gateway itself'
        : seen.has(lower)
          ? 'the same header twice; upper and lower case do not differ'
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

const toolKeys = { pattern: /^[^\s\u0000-\u001f\u007f]{1,128}$/, rule: 'this is not the name of a tool' };
const toolPatterns = z.array(textLine(200)).max(1000);

const pushSchema = z.strictObject({
  sampling: z.boolean().default(false).describe('May ask the model of the client for text.'),
  elicitation: z.boolean().default(true).describe('May ask the person for input.'),
  roots: z.boolean().default(false).describe('May ask for the roots of the client.'),
});

const sandboxSchema = z.strictObject({
  image: z
    .string()
    .regex(imageName, { error: 'expected the name of a container image, such as "docker.io/library/node:22"' })
    .optional()
    .describe('Container image to run it in, with the programs of the image; it must be on this machine.'),
  network: z.array(hostAndPort).max(1000).default([]).describe('Hosts it may reach; none unless listed.'),
  readable: z.array(filePath).max(1000).default([]).describe('Further paths it may read.'),
  writable: z.array(filePath).max(1000).default([]).describe('Further paths it may write.'),
  memoryMb: positiveCount(1_048_576).default(512).describe('Most memory of all its processes in one session, in MiB.'),
  pids: positiveCount(65_536).default(64).describe('Most processes and threads in one session.'),
  cpus: z
    .number()
    .min(0.05)
    .max(1024)
    .default(1)
    .describe('Most processor time in one session: 1 is one processor, 0.5 half of one.'),
  fileMb: positiveCount(1_048_576).default(1024).describe('Largest file it may write, in MiB.'),
  openFiles: positiveCount(1_048_576).default(1024).describe('Most files each of its processes may have open.'),
  wallSeconds: timerSeconds.default(86_400).describe('A process older than this is ended, busy or not.'),
});

const toolsSchema = z.strictObject({
  allow: toolPatterns.default(['*']).describe('Tools that may be used.'),
  deny: toolPatterns.default([]).describe('Tools that may not, whatever "allow" says.'),
  permissions: mapOf(
    toolKeys,
    z.string().regex(permissionPattern, { error: 'expected a permission such as "notes:write"' }),
  )
    .default({})
    .describe('The permission a session needs, by tool or pattern of tools.'),
  instead: mapOf(
    toolKeys,
    z.string().regex(/^session_[a-z_]{1,50}$/, { error: 'expected a tool of Ambit, such as "session_edit_file"' }),
  )
    .default({})
    .describe(
      'Tools, or patterns of tools, in whose place one of Ambit’s own is to be used: their descriptions say so.',
    ),
  hideReplaced: z.boolean().default(false).describe('Whether those are left out and refused rather than described.'),
  confirm: toolPatterns.default([]).describe('Tools that a person confirms call by call.'),
});

const cacheSchema = mapOf(
  toolKeys,
  z.strictObject({
    ttlSeconds: lifeSeconds.describe('How long a result may be given again.'),
    per: z.enum(['session', 'user', 'workspace']).default('session').describe('Who shares a result.'),
  }),
);

const oauthSchema = z.strictObject({
  issuer: secureUrl
    .optional()
    .describe('The authorization server, and the only one that is given its codes and secrets; needed with clientId.'),
  clientId: textLine(2048).optional().describe('What Ambit is called there, where it was registered by hand.'),
  clientSecretFile: filePath.optional().describe('File with the secret that goes with clientId.'),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/, { error: 'expected a scope, without spaces' }))
    .max(100)
    .optional()
    .describe('Scopes to ask for; what the server names unless said.'),
  hosts: z
    .array(hostAndPort)
    .max(100)
    .default([])
    .describe('Hosts of its authorization server that may be on a private network.'),
});

const transportNames = ['stdio', 'http', 'streamable-http'] as const;
const serverKeys = z.strictObject({
  command: textLine(4096).optional().describe('Program to start; it speaks MCP on stdin and stdout.'),
  args: z.array(osText).max(10_000).optional().meta({ default: [] }).describe('Its arguments.'),
  env: envMap.optional().meta({ default: {} }).describe('Variables it gets beside the few that Ambit passes.'),
  url: httpUrl.optional().describe('Address of a server that speaks MCP over HTTP.'),
  headers: headerMap.optional().meta({ default: {} }).describe('Headers sent with each request to the url.'),
  oauth: oauthSchema.optional().describe('How users log in to the url; found out from it unless said.'),
  type: z.enum(transportNames).optional().describe('Said in the files of other tools; must agree with command or url.'),
  transport: z.enum(transportNames).optional().describe('The same as type.'),
  disabled: z.boolean().default(false).describe('Leave it out.'),
  imported: textLine(4096)
    .optional()
    .describe('Where "ambit import" found it; such a server starts only as it was approved.'),
  trust: oneOrMore(trustLevel)
    .optional()
    .describe('Sessions that may use it; [direct, sandboxed] with a command, [direct] with a url, unless said.'),
  era: z.enum(['auto', 'modern', 'handshake']).default('auto').describe('Protocol era it speaks; "auto" finds out.'),
  timeoutSeconds: timerSeconds.default(600).describe('A call unanswered for this long has failed.'),
  scope: z
    .enum(['call', 'session', 'user', 'workspace', 'shared'])
    .default('session')
    .describe('Who shares a process; wider than "session" needs contextAware.'),
  contextAware: z.boolean().default(false).describe('It keeps sessions apart by the context of each call.'),
  context: z
    .enum(['full', 'pseudonymous', 'none'])
    .optional()
    .describe('What it is told; "full" with a command, "pseudonymous" with a url, unless said.'),
  push: pushSchema.optional().describe('What it may ask of the client by itself; without this key, anything.'),
  sandbox: sandboxSchema.optional().describe('What its process may do in a sandboxed session.'),
  tools: toolsSchema.prefault({}).describe('Which of its tools may be used, and by whom.'),
  catalog: z
    .enum(['private', 'shared'])
    .default('private')
    .describe('Who shares its lists of tools: sessions of one user in one workspace, or all of one trust level.'),
  cache: cacheSchema.default({}).describe('Results that may be given again, by tool.'),
});

type ServerKeys = z.output<typeof serverKeys>;
type AddProblem = (key: keyof ServerKeys | undefined, message: string) => void;

function checkKeysTogether(server: Partial<ServerKeys>, complain: AddProblem): void {
  const { command, url } = server;
  if (command === undefined && url === undefined) complain(undefined, 'needs a command to start, or a url');
  if (command !== undefined && url !== undefined) complain('url', 'either command or url, not both');
  for (const key of ['type', 'transport'] as const) {
    const stated = server[key];
    if (stated === 'stdio' && command === undefined && url !== undefined) complain(key, '"stdio" goes with command');
    if (stated?.endsWith('http') && url === undefined && command !== undefined)
      complain(key, `"${stated}" goes with url`);
  }
  for (const key of ['args', 'env', 'sandbox'] as const) {
    if (server[key] !== undefined && command === undefined && url !== undefined) complain(key, 'goes with command');
  }
  if (server.headers !== undefined && url === undefined && command !== undefined) complain('headers', 'goes with url');
  if (server.oauth !== undefined && url === undefined && command !== undefined) complain('oauth', 'goes with url');
  if (server.oauth?.clientId !== undefined && server.oauth.issuer === undefined) {
    complain('oauth', 'clientId needs issuer: the authorization server where it was registered');
  }
  if (server.oauth?.clientSecretFile !== undefined && server.oauth.clientId === undefined) {
    complain('oauth', 'clientSecretFile goes with clientId');
  }
  if (server.scope !== undefined && server.scope !== 'session' && command === undefined && url !== undefined) {
    complain('scope', 'goes with command; over HTTP every session has a connection of its own');
  }
  const wide = server.scope === 'user' || server.scope === 'workspace' || server.scope === 'shared';
  if (wide && server.contextAware !== true) {
    complain('scope', `"${server.scope}" shares a process between sessions; it needs contextAware: true`);
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
  | 'imported'
> & {
  trust: TrustLevel[];
  context: 'full' | 'pseudonymous' | 'none';
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
  url: string;
  headers: Record<string, string>;
  oauth?: OauthKeys | undefined;
  command?: undefined;
};

function completeServer(server: ServerKeys): StdioServer | HttpServer {
  const { command, args, env, sandbox, url, headers, oauth, type, transport, trust, context, imported, ...own } =
    server;
  const rest = {
    ...own,
    ...(imported === undefined ? { source: 'operator' as const } : { source: 'imported' as const, file: imported }),
  };
  const levels = [...new Set(trust ?? (url === undefined ? (['direct', 'sandboxed'] as const) : ['direct' as const]))];
  if (url !== undefined) {
    return {
      ...rest,
      transport: 'http',
      url,
      headers: headers ?? {},
      ...(oauth === undefined ? {} : { oauth }),
      trust: levels,
      context: context ?? 'pseudonymous',
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
    rule: 'the name of a server has 1 to 40 of a-z, 0-9 and "-", with no "-" at either end',
    reserved: { ambit: 'this name is reserved for the tools of Ambit itself' },
  },
  serverSchema,
);
