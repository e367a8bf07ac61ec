import * as z from 'zod';
import type { Limits } from '../stores/admission.ts';
import type { SessionView } from './session.ts';

export const instantSchema = z.iso.datetime().describe('ISO 8601');
export const stringListSchema: z.ZodType<readonly string[], readonly string[]> = z.array(z.string());
export const jsonSchema = z.json();

const limit = z.number().int().min(1);

/** The schema of `Limits`. */
export const limitsSchema: z.ZodType<Limits, Limits> = z.strictObject({
  callsPerMinute: limit.max(60_000_000).exactOptional().describe('Maximum number of tool calls per minute.'),
  burst: limit.max(60_000_000).exactOptional().describe('Maximum number of tool calls at once, within callsPerMinute.'),
  concurrentCalls: limit.exactOptional().describe('Maximum number of concurrent tool calls.'),
  totalCalls: limit.exactOptional().describe('Maximum number of tool calls in total.'),
  totalBytes: limit.exactOptional().describe('Maximum number of bytes in tool calls and their results.'),
});

/** The schema of `SessionView`, from which the control API and the tools derive theirs. */
export const sessionSchema = z.object({
  id: z.string(),
  name: z.string().nullable(),
  userId: z.string(),
  agentId: z.string().nullable(),
  workspaceId: z.string().nullable(),
  parentId: z.string().nullable().describe('Id of the session that opened this one.'),
  task: z.string().nullable().describe('The work that the session was opened for.'),
  quotas: limitsSchema
    .nullable()
    .describe('Limits of this session, below quotas.session; null if it has none of its own.'),
  trustLevel: z.enum(['direct', 'sandboxed']),
  servers: stringListSchema.nullable().describe('Servers the session may use; null if it is not limited.'),
  permissions: stringListSchema,
  metadata: z.record(z.string(), jsonSchema).describe('Data attached by the orchestrator. Tools do not see it.'),
  createdAt: instantSchema,
  lastActiveAt: instantSchema,
  expiresAt: instantSchema.describe('When the session expires if it is not used before.'),
  endsAt: instantSchema.describe('When the session expires even if it is in use.'),
  ttlSeconds: z.number().int(),
} satisfies { readonly [Key in keyof SessionView]: z.ZodType<SessionView[Key]> });
