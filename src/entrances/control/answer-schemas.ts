// These schemas are loaded only for the API description and by tests; other code uses their types. That keeps the start
// fast.
import { z } from 'zod';
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
    code: z.string().describe('One of the codes in the reference of errors.'),
    detail: z.string().describe('What happened, for a person.'),
    hint: z.string().describe('What to do about it.'),
  })
  .meta({ id: 'Problem' });

jsonSchema.register(z.globalRegistry, { id: 'JsonValue' });

export const session = sessionSchema.meta({ id: 'Session' });
export const sessionsPage = z.object({
  sessions: listOf(session),
  next: z.string().nullable().describe('For "after"; null when this page is the last.'),
});

export const openedSession = session.and(z.object({ token: z.string().describe('Shown only here.') }));
export const endedSession = session.and(z.object({ ended: z.literal(true) }));
export const sessionDetails = session.and(
  z.object({
    usage: z
      .object({ calls: z.number(), bytes: z.number(), underWay: z.number() })
      .optional()
      .describe('Calls of tools so far, what they carried, and how many are under way.'),
    sandbox: z
      .object({
        runner: z.string().nullable().describe('Null where there is none.'),
        limits: z.record(z.string(), z.string()).nullable().describe('Who keeps a process within each limit.'),
        refusal: z.string().nullable().describe('Why there is none.'),
      })
      .nullable()
      .describe('What its servers run in; null for a direct session, and for every session without a running gateway.'),
  }),
);

const call = z
  .object({
    at: instantSchema,
    id: z.string().describe('The correlation id of the exchange.'),
    server: z.string(),
    method: z.string(),
    name: z.string().optional().describe('Of the tool, prompt or resource.'),
    outcome: z.string().describe('"ok", a code of ours, or the number of a protocol error.'),
    rule: z.string().optional().describe('The rule that decided.'),
    entrance: z.enum(['http', 'stdio']),
    era: z.enum(['modern', 'handshake']),
    workspaceId: z.string().optional(),
    cached: z.string().optional().describe('The exchange whose result was given again.'),
    traceId: z.string().optional(),
    ms: z.number(),
    bytesIn: z.int(),
    bytesOut: z.int(),
  })
  .meta({ id: 'Call' });

export const callsPage = z.object({
  calls: listOf(call),
  next: z.string().nullable().describe('For "before"; null when there are none left.'),
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
  mcpServers: z.record(z.string(), z.union([stdioServer, httpServer])).describe('Ready for an agent SDK.'),
  servers: listOf(
    z.union([
      z.object({
        name: z.string(),
        available: z.literal(true),
        env: z
          .record(z.string(), z.enum(['injected', 'pinned', 'configured', 'workspace', 'credential']))
          .describe('Where each of its variables comes from.'),
        problem: z
          .string()
          .optional()
          .describe('What will keep it from starting, as far as that shows without starting it.'),
      }),
      z.object({
        name: z.string(),
        available: z.literal(false),
        rule: z.string().describe('The rule by which it is out.'),
        reason: z.string(),
      }),
    ]),
  ),
});

export const callExplanation = z.object({
  sessionId: z.string(),
  server: z.string(),
  tool: z.string(),
  allowed: z.boolean(),
  rule: z.string(),
  reason: z.string(),
  claims: listOf(
    z.object({ claim: z.string(), value: z.union([z.string(), stringListSchema]), source: z.string() }),
  ).describe('What it was decided from, and who said it.'),
  rules: listOf(
    z.object({
      id: z.string(),
      effect: z.enum(['allow', 'deny']),
      outcome: z.enum(['holds', 'does not hold', 'error']),
      error: z.string().optional(),
      claims: stringListSchema,
    }),
  ).describe('Every rule that names the tool, and how it came out for these arguments.'),
});

export const event = z
  .object({
    type: z.enum(['created', 'restricted', 'expired', 'ended', 'evicted', 'lost']),
    at: instantSchema,
    reason: z.enum(['ended', 'evicted', 'revoked', 'closed']).optional(),
    session: z
      .union([session, z.object({ id: z.string() })])
      .optional()
      .describe('As it is now, or as it was at its end; only its id when nothing is left of it.'),
  })
  .meta({ id: 'Event' });

const folderName = z.object({ sessionId: z.string(), workspaceId: z.string() });
const change = z.enum(['added', 'modified', 'deleted']);
export const folderDiff = folderName.extend({
  isolation: z.enum(['worktree', 'copy']),
  path: z.string(),
  branch: z.string().nullable(),
  commit: z.string().nullable(),
  uncommitted: z
    .boolean()
    .describe('The workspace had changes when the folder was made which are in no commit, and so not in the folder.'),
  files: listOf(
    z.object({
      path: z.string(),
      status: change,
      oldMode: z.string().nullable().describe('As git writes it: 100644, 100755, or 120000 for a link.'),
      newMode: z.string().nullable(),
      binary: z.boolean().describe('Its content is no text, or too large to be shown.'),
      added: z.int().nullable().describe('Lines; null where they cannot be counted.'),
      removed: z.int().nullable(),
    }),
  ),
  patch: z.string().describe('A unified diff that git can apply.'),
  shortened: z.boolean().describe('The patch would have been longer than is shown.'),
});

const mergedFiles = listOf(
  z.object({
    path: z.string(),
    change,
    outcome: z
      .enum(['taken', 'merged', 'already', 'left', 'refused', 'conflict'])
      .describe(
        'taken: as the session has it. merged: with what was changed in the workspace meanwhile. already: the workspace has it. left: the workspace\u2019s own was preferred. refused: closed to sessions. conflict: both changed the same.',
      ),
    reason: z.string().optional(),
  }),
).describe('What became of each file.');

export const merge = folderName.extend({
  dryRun: z.boolean(),
  fits: z.boolean().describe('False where anything conflicts: then nothing was changed.'),
  files: mergedFiles,
});

export const mergeConflict = problem.and(z.object({ files: mergedFiles }));
export const discardedFolder = folderName.extend({ discarded: z.literal(true) });
const declared = z.boolean().describe('Written in the configuration, and changed only there.');
export const user = z
  .object({ name: z.string(), teams: stringListSchema, declared, createdAt: instantSchema.nullable() })
  .meta({ id: 'User' });

export const users = z.object({ organisation: z.string().nullable(), users: listOf(user) });
export const removedUser = z.object({
  name: z.string(),
  removed: z.literal(true),
  keys: z.int().describe('How many were revoked.'),
  sessions: z.int().describe('How many were ended.'),
});

const team = z.object({ name: z.string(), declared, members: stringListSchema }).meta({ id: 'Team' });
export const teams = z.object({ teams: listOf(team) });
export const key = z
  .object({
    id: z.string(),
    userId: z.string(),
    state: z.enum(['active', 'expired', 'revoked']),
    trustLevel: z.enum(['direct', 'sandboxed']).describe('The most a session may have that it opens or uses.'),
    workspaces: stringListSchema.nullable().describe('The only ones it may use; null for all.'),
    scopes: stringListSchema.nullable().describe('The only permissions it brings or meets; null for no such list.'),
    createdAt: instantSchema,
    expiresAt: instantSchema.nullable(),
    revokedAt: instantSchema.nullable(),
    lastUsedAt: instantSchema.nullable().describe('Behind by a minute at most.'),
    previousUntil: instantSchema.nullable().describe('Until when the secret before the last rotation is taken too.'),
  })
  .meta({ id: 'Key' });

export const keys = z.object({ keys: listOf(key) });
export const mintedKey = key.and(z.object({ key: z.string().describe('Shown only here.') }));
export const revokedKey = key.and(z.object({ sessions: z.int().describe('How many were ended.') }));

export const credentials = z.object({
  credentials: listOf(
    credentialName.extend({
      setAt: instantSchema,
      usable: z.boolean().describe('False when it cannot be opened with the key that is here.'),
    }),
  ),
});

export const setCredential = credentialName.extend({ set: z.literal(true) });
export const removedCredential = credentialName.extend({
  removed: z.boolean().describe('False when there was none.'),
});

export const login = z.object({
  userId: z.string(),
  server: z.string(),
  issuer: z.string(),
  scopes: stringListSchema,
  state: z
    .enum(['active', 'lost', 'wanted'])
    .describe('lost: the user has to log in again. wanted: the server wants more than was agreed to.'),
  why: z.string().optional(),
  madeAt: instantSchema,
  expiresAt: instantSchema.optional(),
});

export const logins = z.object({ logins: listOf(login) });
export const startedLogin = z.object({
  authorizationUrl: z.string().describe('Where the browser of the user goes.'),
  redirectUri: z.string(),
});

export const removedLogin = loginName.extend({ removed: z.boolean().describe('False when there was none.') });

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
export const removedPolicy = policyName.extend({ removed: z.boolean().describe('False when there was none.') });
export const removedObjective = objectiveId.extend({ removed: z.boolean().describe('False when there was none.') });
export const effectivePolicies = z.object({
  userId: z.string(),
  workspaceId: z.string().nullable(),
  teams: stringListSchema,
  policies: listOf(
    policy.and(
      z.object({
        outcome: z.enum(['given', 'disabled', 'replaced', 'locked out']),
        by: z.string().nullable().describe('The scope of the one that stands instead.'),
      }),
    ),
  ).describe('Every policy that was weighed.'),
  objectives: listOf(objective),
  block: z.string().describe('What the model is given.'),
});

export const openApi = z.record(z.string(), z.unknown());
