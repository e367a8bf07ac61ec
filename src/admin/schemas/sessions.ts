import { z } from 'zod';
import { instant, jsonValue, sessionSchema, texts } from '../../sessions/session-schema.ts';
import { givenTrust, list } from './parts.ts';

jsonValue.register(z.globalRegistry, { id: 'JsonValue' });

export const narrowing = z.strictObject({
  trustLevel: givenTrust.exactOptional(),
  ttlSeconds: z.number().exactOptional().describe('It ends when it is idle for so long.'),
  servers: texts.exactOptional().describe('The only servers it may use; an empty list means none.'),
  permissions: texts.exactOptional().describe('What it may do, by name.'),
});

export const draft = narrowing.extend({
  name: z.string().exactOptional().describe('Unique per user among live sessions.'),
  userId: z.string().exactOptional(),
  agentId: z.string().exactOptional(),
  workspaceId: z.string().exactOptional(),
  parentId: z
    .string()
    .exactOptional()
    .describe('An id, a unique name or a prefix. The session is bounded by that one, and ends with it.'),
  metadata: z.record(z.string(), jsonValue).exactOptional().describe('Notes of the orchestrator; tools are not told.'),
});

export const sessionsQuery = z.object({
  user: z.string().exactOptional().describe('Only those of this user.'),
  workspace: z.string().exactOptional().describe('Only those in this workspace.'),
  parent: z.string().exactOptional().describe('Only those that this session opened.'),
  after: z.string().exactOptional().describe('"next" of the page before.'),
  // The store refuses other numbers.
  limit: z
    .string()
    .transform(Number)
    .default(1000)
    .meta({ type: 'integer', minimum: 1, maximum: 1000, description: 'At most this many; 1000 unless said.' }),
});

export const session = sessionSchema.meta({ id: 'Session' });
export const sessionsPage = z.object({
  sessions: list(session),
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
      .describe('What its servers run in; null for a direct session.'),
  }),
);

const mostCalls = 200;
const callsLimit = { error: `a whole number from 1 to ${mostCalls}` };

export const callsQuery = z.object({
  before: z
    .string()
    .regex(/^\d{1,15}$/, '"next" of the page before, as it was')
    .optional()
    .describe('"next" of the page before.'),
  limit: z.coerce
    .number(callsLimit)
    .int(callsLimit)
    .min(1, callsLimit)
    .max(mostCalls, callsLimit)
    .default(50)
    .describe('At most this many.'),
});

const call = z
  .object({
    at: instant,
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
  calls: list(call),
  next: z.string().nullable().describe('For "before"; null when there are none left.'),
});

export const via = z.strictObject({ via: z.literal('gateway') });
const stdioServer = z.object({
  command: z.string(),
  args: texts,
  env: z.record(z.string(), z.string()),
});
const httpServer = z.object({
  type: z.literal('http'),
  url: z.string(),
  headers: z.record(z.string(), z.string()),
});
export const sessionServers = z.object({
  mcpServers: z.record(z.string(), z.union([stdioServer, httpServer])).describe('Ready for an agent SDK.'),
  servers: list(
    z.union([
      z.object({
        name: z.string(),
        available: z.literal(true),
        env: z
          .record(z.string(), z.enum(['injected', 'pinned', 'configured', 'workspace', 'credential']))
          .describe('Where each of its variables comes from.'),
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

export const callToExplain = z.strictObject({
  tool: z.string().describe('As server__tool; one of Ambit\u2019s own by its bare name.'),
  // It is judged as it was written, not as somebody has read it.
  args: z.string().optional().describe('The arguments, as JSON text.'),
});
export const callExplanation = z.object({
  sessionId: z.string(),
  server: z.string(),
  tool: z.string(),
  allowed: z.boolean(),
  rule: z.string(),
  reason: z.string(),
  claims: list(z.object({ claim: z.string(), value: z.union([z.string(), texts]), source: z.string() })).describe(
    'What it was decided from, and who said it.',
  ),
  rules: list(
    z.object({
      id: z.string(),
      effect: z.enum(['allow', 'deny']),
      outcome: z.enum(['holds', 'does not hold', 'error']),
      error: z.string().optional(),
      claims: texts,
    }),
  ).describe('Every rule that names the tool, and how it came out for these arguments.'),
});

export const event = z
  .object({
    type: z.enum(['created', 'restricted', 'expired', 'ended', 'evicted', 'lost']),
    at: instant,
    reason: z.enum(['ended', 'evicted', 'revoked', 'closed']).optional(),
    session: z
      .union([session, z.object({ id: z.string() })])
      .optional()
      .describe('As it is now, or as it was at its end; only its id when nothing is left of it.'),
  })
  .meta({ id: 'Event' });
