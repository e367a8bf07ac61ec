// These schemas are loaded only for the API description and by tests; other code uses their types. That keeps the start
// fast.
import { z } from 'zod';
import { serverStates } from '../../gateway/server-activity.ts';
import { instantSchema, jsonSchema, sessionSchema, stringListSchema } from '../../sessions/session-schema.ts';
import { transports } from '../../upstreams/definition.ts';
import { credentialName, loginName } from './routes/credentials.ts';
import { mode, objectiveId, policyName, scope } from './routes/policies.ts';

/** A read-only list. */
function listOf<Each extends z.ZodType>(each: Each): z.ZodType<readonly z.output<Each>[], readonly z.input<Each>[]> {
  return z.array(each);
}

export const problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string().describe('Error code from the list of errors.'),
    detail: z.string().describe('What happened, as a sentence.'),
    hint: z.string().describe('How to fix it.'),
  })
  .meta({ id: 'Problem' });

jsonSchema.register(z.globalRegistry, { id: 'JsonValue' });

export const session = sessionSchema.meta({ id: 'Session' });
export const sessionsPage = z.object({
  sessions: listOf(session),
  next: z.string().nullable().describe('Pass as "after" to get the next page; null on the last page.'),
});

export const issuedToken = z.object({ token: z.string().describe('Session token. Only this response contains it.') });
export const openedSession = session.and(issuedToken);
export const endedSession = session.and(z.object({ ended: z.literal(true) }));
export const sessionDetails = session.and(
  z.object({
    usage: z
      .object({
        calls: z.number().describe('Number of tool calls.'),
        bytes: z.number().describe('Bytes of the calls and their results.'),
        underWay: z.number().describe('Number of unfinished calls.'),
      })
      .optional()
      .describe('Usage of the session so far.'),
    sandbox: z
      .object({
        runner: z.string().nullable().describe('Name of the sandbox runner; null if none is available.'),
        limits: z.record(z.string(), z.string()).nullable().describe('What enforces each limit.'),
        refusal: z.string().nullable().describe('Why no sandbox is available.'),
      })
      .nullable()
      .describe('Sandbox of the servers of this session; null for a direct session, or if no gateway is running.'),
  }),
);

const call = z
  .object({
    at: instantSchema,
    id: z
      .string()
      .optional()
      .describe('Correlation id of the call. Streams and batches have none, and no duration and sizes.'),
    server: z.string().describe('Name of the server; "*" if no single server was found or meant.'),
    method: z.string().describe('MCP method.'),
    name: z.string().optional().describe('Name of the tool or prompt, or URI of the resource.'),
    outcome: z.string().describe('"ok", an error code of Ambit, or the number of a protocol error.'),
    rule: z.string().optional().describe('Rule that decided about the call.'),
    entrance: z.enum(['http', 'stdio']).describe('How the client is connected.'),
    era: z.enum(['modern', 'handshake']).describe('Protocol era of the client.'),
    workspaceId: z.string().optional(),
    cached: z.string().optional().describe('Id of the call whose cached result was returned.'),
    traceId: z.string().optional(),
    ms: z.number().optional().describe('Duration in milliseconds.'),
    bytesIn: z.int().optional().describe('Size of the request.'),
    bytesOut: z.int().optional().describe('Size of the response.'),
  })
  .meta({ id: 'Call' });

export const callsPage = z.object({
  calls: listOf(call),
  next: z.string().nullable().describe('Pass as "before" to get older calls; null if there are none.'),
});

const journalEntry = z.looseObject({ time: instantSchema, kind: z.string() }).meta({ id: 'JournalEntry' });
export const journalPage = z.object({
  entries: listOf(journalEntry).describe('Lines of the journal. The kind of a line decides which members it has.'),
  next: z.string().nullable().describe('Pass as "before" to get older lines; null if there are none.'),
  unreadable: z.int().describe('Number of damaged lines that were skipped.'),
});

const texts = z.record(z.string(), z.string());
const stdioServer = z.object({ command: z.string(), args: stringListSchema, env: texts });
const httpServer = z.object({ type: z.enum(['http', 'sse']), url: z.string(), headers: texts });

export const sessionServers = z.object({
  mcpServers: z
    .record(z.string(), z.union([stdioServer, httpServer]))
    .describe('Servers in the format that agent SDKs accept.'),
  servers: listOf(
    z.union([
      z.object({
        name: z.string(),
        available: z.literal(true).describe('The session may use the server.'),
        env: z
          .record(z.string(), z.enum(['injected', 'pinned', 'configured', 'workspace', 'credential']))
          .describe('Origin of each environment variable.'),
        problem: z
          .string()
          .optional()
          .describe('Why the server will not start, if this can be told without starting it.'),
      }),
      z.object({
        name: z.string(),
        available: z.literal(false).describe('The session may not use the server.'),
        rule: z.string().describe('Rule that excludes the server.'),
        reason: z.string(),
      }),
    ]),
  ),
});

export const callExplanation = z.object({
  sessionId: z.string(),
  server: z.string(),
  tool: z.string(),
  allowed: z.boolean().describe('Whether the call would be allowed.'),
  rule: z.string().describe('Rule that decides.'),
  reason: z.string().describe('The decision, as a sentence.'),
  claims: listOf(
    z.object({ claim: z.string(), value: z.union([z.string(), stringListSchema]), source: z.string() }),
  ).describe('Facts the decision is based on, and their source.'),
  rules: listOf(
    z.object({
      id: z.string(),
      effect: z.enum(['allow', 'deny']),
      outcome: z.enum(['holds', 'does not hold', 'error']).describe('Whether the condition of the rule is met.'),
      error: z.string().optional(),
      claims: stringListSchema.describe('Names of the facts that the rule uses.'),
    }),
  ).describe('Every rule that matches the tool, and its outcome for these arguments.'),
});

export const event = z
  .object({
    type: z.enum(['created', 'restricted', 'expired', 'ended', 'evicted', 'lost']),
    at: instantSchema,
    reason: z.enum(['ended', 'evicted', 'revoked', 'closed']).optional().describe('Why the session ended.'),
    session: z
      .union([session, z.object({ id: z.string() })])
      .optional()
      .describe('The session as it is now, or as it was when it ended. Only the id if the record no longer exists.'),
  })
  .meta({ id: 'Event' });

const folderName = z.object({ sessionId: z.string(), workspaceId: z.string() });
const change = z.enum(['added', 'modified', 'deleted']);
export const folderDiff = folderName.extend({
  isolation: z.enum(['worktree', 'copy']).describe('Kind of the folder.'),
  path: z.string().describe('Path of the folder.'),
  branch: z.string().nullable().describe('Branch of a worktree.'),
  commit: z.string().nullable().describe('Commit that a worktree started from.'),
  uncommitted: z
    .boolean()
    .describe('The workspace had uncommitted changes when the folder was created. They are not in the folder.'),
  files: listOf(
    z.object({
      path: z.string(),
      status: change,
      oldMode: z.string().nullable().describe('File mode as in git: 100644, 100755, or 120000 for a link.'),
      newMode: z.string().nullable(),
      binary: z.boolean().describe('The content is not text, or too large to show.'),
      added: z.int().nullable().describe('Number of lines; null if they cannot be counted.'),
      removed: z.int().nullable(),
    }),
  ),
  patch: z.string().describe('A unified diff that git can apply.'),
  shortened: z.boolean().describe('The patch was truncated.'),
});

const mergedFiles = listOf(
  z.object({
    path: z.string(),
    change,
    outcome: z
      .enum(['taken', 'merged', 'already', 'left', 'refused', 'conflict'])
      .describe(
        'taken: the version of the session was used. merged: changes of both sides were combined. already: the workspace already has this version. left: the version of the workspace was kept, as requested. refused: sessions may not write this file. conflict: both sides changed the same part.',
      ),
    reason: z.string().optional(),
  }),
).describe('Outcome for each file.');

export const merge = folderName.extend({
  dryRun: z.boolean(),
  fits: z.boolean().describe('False if any file conflicts; then nothing was changed.'),
  files: mergedFiles,
});

export const mergeConflict = problem.and(z.object({ files: mergedFiles }));
export const discardedFolder = folderName.extend({ discarded: z.literal(true) });
const declared = z.boolean().describe('Declared in the configuration file; it can only be changed there.');
export const user = z
  .object({ name: z.string(), teams: stringListSchema, declared, createdAt: instantSchema.nullable() })
  .meta({ id: 'User' });

export const users = z.object({ organisation: z.string().nullable(), users: listOf(user) });
export const removedUser = z.object({
  name: z.string(),
  removed: z.literal(true),
  keys: z.int().describe('Number of revoked keys.'),
  sessions: z.int().describe('Number of ended sessions.'),
});

const team = z.object({ name: z.string(), declared, members: stringListSchema }).meta({ id: 'Team' });
export const teams = z.object({ teams: listOf(team) });
export const key = z
  .object({
    id: z.string(),
    userId: z.string(),
    state: z.enum(['active', 'expired', 'revoked']),
    trustLevel: z
      .enum(['direct', 'sandboxed'])
      .describe('Highest trust level of sessions opened or used with this key.'),
    workspaces: stringListSchema.nullable().describe('Workspaces the key may use; null for all.'),
    scopes: stringListSchema
      .nullable()
      .describe(
        'Permissions of sessions opened with this key. The key cannot use sessions that have other permissions. Null: no permissions, and no such limit.',
      ),
    createdAt: instantSchema,
    expiresAt: instantSchema.nullable(),
    revokedAt: instantSchema.nullable(),
    lastUsedAt: instantSchema.nullable().describe('Updated at most once per minute.'),
    previousUntil: instantSchema
      .nullable()
      .describe('Until when the secret from before the last rotation is accepted.'),
  })
  .meta({ id: 'Key' });

export const keys = z.object({ keys: listOf(key) });
export const mintedKey = key.and(
  z.object({ key: z.string().describe('The API key. Only this response contains it.') }),
);
export const revokedKey = key.and(z.object({ sessions: z.int().describe('Number of ended sessions.') }));

export const credentials = z.object({
  credentials: listOf(
    credentialName.extend({
      setAt: instantSchema,
      usable: z.boolean().describe('False if the value cannot be decrypted with the current encryption key.'),
    }),
  ),
});

export const setCredential = credentialName.extend({ set: z.literal(true) });
export const removedCredential = credentialName.extend({
  removed: z.boolean().describe('False if it did not exist.'),
});

export const login = z.object({
  userId: z.string(),
  server: z.string(),
  issuer: z.string(),
  scopes: stringListSchema,
  state: z
    .enum(['active', 'lost', 'wanted'])
    .describe('lost: the user must log in again. wanted: the server asks for more scopes than the user granted.'),
  why: z.string().optional().describe('Why the login cannot be used.'),
  madeAt: instantSchema,
  expiresAt: instantSchema.optional(),
});

export const logins = z.object({ logins: listOf(login) });
export const startedLogin = z.object({
  authorizationUrl: z.string().describe('URL to open in the browser of the user.'),
  redirectUri: z.string(),
});

export const removedLogin = loginName.extend({ removed: z.boolean().describe('False if it did not exist.') });

const policyBase = {
  scope,
  text: z.string(),
  enabled: z.boolean(),
  order: z.int(),
  declared,
};

export const policy = z.object({ ...policyBase, name: z.string(), mode, locked: z.boolean() }).meta({ id: 'Policy' });
export const objective = z.object({ ...policyBase, id: z.string() }).meta({ id: 'Objective' });
export const policies = z.object({ policies: listOf(policy) });
export const objectives = z.object({ objectives: listOf(objective) });
export const removedPolicy = policyName.extend({ removed: z.boolean().describe('False if it did not exist.') });
export const removedObjective = objectiveId.extend({ removed: z.boolean().describe('False if it did not exist.') });
export const effectivePolicies = z.object({
  userId: z.string(),
  workspaceId: z.string().nullable(),
  teams: stringListSchema,
  policies: listOf(
    policy.and(
      z.object({
        outcome: z.enum(['given', 'disabled', 'replaced', 'locked out']).describe('given: the model gets the policy.'),
        by: z.string().nullable().describe('Scope of the policy of the same name that takes precedence.'),
      }),
    ),
  ).describe('All policies that were considered.'),
  objectives: listOf(objective),
  block: z.string().describe('Text that the model gets.'),
});

const lastError = z
  .object({ at: instantSchema, message: z.string() })
  .nullable()
  .describe('Last failure of the server; null if there was none since the gateway started.');

const serverOverview = z
  .object({
    name: z.string(),
    source: z
      .enum(['operator', 'imported', 'project'])
      .describe('operator: the configuration. project: an included file.'),
    file: z.string().nullable().describe('Included or imported file; null for a server of the configuration.'),
    transport: z.enum(transports).describe('http: Streamable HTTP. sse: HTTP+SSE, configured or detected.'),
    trust: listOf(z.enum(['direct', 'sandboxed'])).describe('Trust levels of the sessions that may use the server.'),
    era: z.enum(['modern', 'handshake']).nullable().describe('Protocol era of the server; null while it is unknown.'),
    approval: z
      .enum(['not needed', 'approved', 'changed', 'exposed', 'unapproved'])
      .describe('changed: it differs from what was approved. exposed: another account could replace its program.'),
    changes: stringListSchema.describe('Differences between the server and its approval.'),
    definitionHash: z.string().describe('Hash of the definition of the server.'),
    state: z
      .enum(serverStates)
      .nullable()
      .describe(
        'running: a process runs. idle: no process runs; the next call starts one. failed: the last start failed, or the last process ended by itself. reachable, unreachable: result of the last call to an HTTP server. unapproved: it may not start until it is approved. null: no gateway is running.',
      ),
    processes: z.int().nullable().describe('Number of running processes; null if no gateway is running.'),
    lastError,
  })
  .meta({ id: 'Server' });

export const servers = z.object({ servers: listOf(serverOverview) });

export const serverLog = z.object({
  server: z.string(),
  sessionId: z.string().nullable().describe('Session given as filter; null if there was no filter.'),
  position: z.int().describe('Number of lines that the server has written so far.'),
  lines: listOf(
    z.object({
      at: instantSchema,
      session: z.string().nullable().describe('First 8 characters of the session id; null for a shared process.'),
      pid: z.int().nullable(),
      line: z.string().describe('The line. Secrets are removed and control characters are escaped.'),
    }),
  ),
});

export const gatewayStatus = z.object({
  gateway: z
    .object({
      url: z.string().nullable().describe('URL of the gateway; null if it has no HTTP listener.'),
      pid: z.int(),
      version: z.string(),
      startedAt: instantSchema,
      logFile: z.string().nullable().describe('Log file of a gateway in the background; otherwise null.'),
    })
    .nullable()
    .describe('The running gateway. Null only in the output of "ambit status", if no gateway is running.'),
  configFile: z.string(),
  dataDir: z.string(),
  sessions: z
    .object({ total: z.int(), direct: z.int(), sandboxed: z.int() })
    .nullable()
    .describe('Number of live sessions by trust level; null if the store cannot be reached.'),
  servers: z.object({
    total: z.int(),
    states: z.record(z.string(), z.int()).describe('Number of servers by state.'),
    troubled: listOf(z.object({ name: z.string(), state: z.string(), lastError })).describe(
      'Servers that are failed, unreachable or unapproved.',
    ),
  }),
  processes: z
    .object({ running: z.int(), max: z.int().describe('Value of processes.max in the configuration.') })
    .nullable()
    .describe('Server processes; null if no gateway is running.'),
  store: z.object({ kind: z.string(), reachable: z.boolean() }),
});

export const stopping = z.object({
  stopping: z.literal(true),
  pid: z.int(),
  processStart: z.int().nullable().describe('Start time in clock ticks since boot; null on systems without /proc.'),
  background: z.boolean().describe('Whether the gateway runs in the background.'),
});

export const openApi = z.record(z.string(), z.unknown());
