import { z } from 'zod';
import { instantSchema, jsonSchema, sessionSchema, stringListSchema } from '../../../sessions/session-schema.ts';
import { activity, activityEvent, gatewayEvent, sessionLimits, sessionUsage } from './activity.ts';
import { listOf } from './parts.ts';

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

const effectiveLimits = sessionLimits.describe(
  'Limits of the session: its own quotas or quotas.session, whichever is lower. The quotas of its parent, user and workspace apply too.',
);

/** The members that `include` adds to a listed session. */
const listedSession = session
  .and(
    z.object({
      activity: activity
        .nullable()
        .optional()
        .describe('Only with include=activity. Null if the session has made no call in this gateway process.'),
      usage: sessionUsage
        .nullable()
        .optional()
        .describe(
          'Only with include=usage. Usage of the session so far in all processes, up to about a second ago. Null if the session has just ended.',
        ),
      limits: effectiveLimits.optional(),
      children: z.int().optional().describe('Only with include=usage. Number of live child sessions.'),
    }),
  )
  .meta({ id: 'ListedSession' });

export const sessionsPage = z.object({
  sessions: listOf(listedSession),
  next: z.string().nullable().describe('Pass as "after" to get the next page; null on the last page.'),
});

const { id, name, userId, agentId, workspaceId, parentId, trustLevel } = sessionSchema.shape;

export const endedSessionsPage = z.object({
  sessions: listOf(
    z
      .object({ id, name, userId, agentId, workspaceId, trustLevel, parentId })
      .extend({
        task: z.string().nullable().describe('The work that the session was opened for: the first 1000 characters.'),
        createdAt: instantSchema,
        endedAt: instantSchema,
        reason: z
          .enum(['ended', 'expired', 'evicted', 'revoked', 'closed'])
          .describe('Why the session ended; see the events.'),
      })
      .meta({ id: 'EndedSession' }),
  ),
  next: z
    .string()
    .nullable()
    .describe('Pass as "after" to get older sessions; null if there are none. A page may be empty and not the last.'),
});

export const issuedToken = z.object({ token: z.string().describe('Session token. Only this response contains it.') });
export const openedSession = session.and(issuedToken);
export const endedSession = session.and(z.object({ ended: z.literal(true) }));
export const sessionDetails = session.and(
  z.object({
    usage: sessionUsage.optional().describe('Usage of the session so far.'),
    limits: effectiveLimits,
    children: z.int().describe('Number of live child sessions.'),
    activity: activity
      .nullable()
      .describe('Null if the session has made no call in this gateway process, or if no gateway is running.'),
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
    claims: z
      .string()
      .optional()
      .describe('Facts about the session that the rule is based on, as the text of a JSON object.'),
    argsSha256: z
      .string()
      .optional()
      .describe('SHA-256 of the arguments of a tool call, as in the signed context. See the page "Journal".'),
    entrance: z.enum(['http', 'stdio']).describe('How the client is connected.'),
    era: z.enum(['modern', 'handshake']).describe('Protocol era of the client.'),
    workspaceId: z.string().optional(),
    cached: z.string().optional().describe('Id of the call whose cached result was returned.'),
    traceId: z.string().optional(),
    ms: z.number().optional().describe('Duration in milliseconds.'),
    upstreamMs: z.number().optional().describe('Time until the server answered, if it was asked.'),
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

/** The data of each event of the stream. The type of the event tells which it is. */
export const eventData = z.union([event, activityEvent, gatewayEvent]);
