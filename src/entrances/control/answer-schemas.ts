// These schemas are loaded only for the API description and by tests; other code uses their types. That keeps the start
// fast.
import { z } from 'zod';
import { serverStates } from '../../gateway/server-activity.ts';
import { instantSchema, jsonSchema, sessionSchema, stringListSchema } from '../../sessions/session-schema.ts';
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
    code: z.string().describe('Error code; see the reference of errors.'),
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

export const openedSession = session.and(
  z.object({ token: z.string().describe('Session token. Only this response contains it.') }),
);
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
    id: z.string().describe('Correlation id of the call.'),
    server: z.string().describe('Name of the server; "*" for all.'),
    method: z.string().describe('MCP method.'),
    name: z.string().optional().describe('Name of the tool or prompt, or URI of the resource.'),
    outcome: z.string().describe('"ok", an error code of Ambit, or the number of a protocol error.'),
    rule: z.string().optional().describe('Rule that decided about the call.'),
    entrance: z.enum(['http', 'stdio']).describe('How the client is connected.'),
    era: z.enum(['modern', 'handshake']).describe('Protocol era of the client.'),
    workspaceId: z.string().optional(),
    cached: z.string().optional().describe('Id of the call whose cached result was returned.'),
    traceId: z.string().optional(),
    ms: z.number().describe('Duration in milliseconds.'),
    bytesIn: z.int().describe('Size of the request.'),
    bytesOut: z.int().describe('Size of the response.'),
  })
  .meta({ id: 'Call' });

export const callsPage = z.object({
  calls: listOf(call),
  next: z.string().nullable().describe('Pass as "before" to get older calls; null if there are none.'),
});

const stdioServer = z.object({
  command: z.string(),
  args: stringListSchema,
  env: z.record(z.string(), z.string()),
});

const httpServer = z.object({
  type: z.literal('http'),
  url: z.string(),
  headers: z.record(z.string(), z.string()),
});

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
      outcome: z.enum(['holds', 'does not hold', 'error']),
      error: z.string().optional(),
      claims: stringListSchema,
    }),
  ).describe('Every rule that matches the tool, and its outcome for these arguments.'),
});

export const event = z
  .object({
    type: z.enum(['created', 'restricted', 'expired', 'ended', 'evicted', 'lost']),
    at: instantSchema,
    reason: z.enum(['ended', 'evicted', 'revoked', 'closed']).optional(),
    session: z
      .union([session, z.object({ id: z.string() })])
      .optional()
      .describe('The session now, or as it was when it ended. Only the id if its record is gone.'),
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
        outcome: z.enum(['given', 'disabled', 'replaced', 'locked out']),
        by: z.string().nullable().describe('Scope of the policy that replaces this one.'),
      }),
    ),
  ).describe('All policies that were considered.'),
  objectives: listOf(objective),
  block: z.string().describe('Text that the model gets.'),
});

const lastError = z
  .object({ at: instantSchema, message: z.string() })
  .nullable()
  .describe('The last failure of the server; null if there was none since the gateway started.');

const serverOverview = z
  .object({
    name: z.string(),
    source: z.enum(['operator', 'imported', 'project']),
    file: z.string().nullable().describe('The included or imported file; null for a server of the configuration.'),
    transport: z.enum(['stdio', 'http']),
    trust: listOf(z.enum(['direct', 'sandboxed'])).describe('The sessions that may use it.'),
    era: z.enum(['modern', 'handshake']).nullable().describe('The era that it speaks; null while that is unknown.'),
    approval: z
      .enum(['not needed', 'approved', 'changed', 'exposed', 'unapproved'])
      .describe('exposed: another account could exchange the program.'),
    changes: stringListSchema.describe('The differences between the server and its approval.'),
    definitionHash: z.string(),
    state: z
      .enum(serverStates)
      .nullable()
      .describe(
        'running: a process runs. idle: nothing runs; the next call starts it. failed: the last start failed, or the last process was lost. reachable, unreachable: how the last call to a server over HTTP went. unapproved: it may not start.',
      ),
    processes: z.int().nullable().describe('How many of its processes run now.'),
    lastError,
  })
  .meta({ id: 'Server' });

export const servers = z.object({ servers: listOf(serverOverview) });

export const serverLog = z.object({
  server: z.string(),
  sessionId: z.string().nullable().describe('The session that the lines were filtered by; null for all lines.'),
  position: z.int().describe('The number of lines that the server has written so far.'),
  lines: listOf(
    z.object({
      at: instantSchema,
      session: z.string().nullable().describe('The first 8 characters of the id; null for a shared process.'),
      pid: z.int().nullable(),
      line: z.string().describe('Without secrets; control characters are escaped.'),
    }),
  ),
});

export const gatewayStatus = z.object({
  gateway: z
    .object({
      url: z.string().nullable().describe('Null if it does not listen.'),
      pid: z.int(),
      version: z.string(),
      startedAt: instantSchema,
      logFile: z.string().nullable().describe('The log of a gateway in the background; null in the foreground.'),
    })
    .nullable()
    .describe('Null where a command answers without a gateway.'),
  configFile: z.string(),
  dataDir: z.string(),
  sessions: z
    .object({ total: z.int(), direct: z.int(), sandboxed: z.int() })
    .nullable()
    .describe('The live sessions by trust level; null if the store cannot be reached.'),
  servers: z.object({
    total: z.int(),
    states: z.record(z.string(), z.int()).describe('The number of servers by state.'),
    troubled: listOf(z.object({ name: z.string(), state: z.string(), lastError })).describe(
      'The servers that are failed, unreachable or unapproved.',
    ),
  }),
  processes: z
    .object({ running: z.int(), max: z.int().describe('processes.max of the configuration.') })
    .nullable()
    .describe('The processes of servers.'),
  store: z.object({ kind: z.string(), reachable: z.boolean() }),
});

export const stopping = z.object({
  stopping: z.literal(true),
  pid: z.int(),
  processStart: z.int().nullable().describe('Its start in clock ticks since boot; null on systems without /proc.'),
  background: z.boolean(),
});

export const openApi = z.record(z.string(), z.unknown());
