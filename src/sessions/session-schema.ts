import * as z from 'zod';
import type { SessionView } from './session.ts';

export const instantSchema = z.iso.datetime().describe('ISO 8601');
export const stringListSchema: z.ZodType<readonly string[], readonly string[]> = z.array(z.string());
export const jsonSchema = z.json();

/** The schema of `SessionView`, from which the control API and the tools derive theirs. */
export const sessionSchema = z.object({
  id: z.string(),
  name: z.string().nullable(),
  userId: z.string(),
  agentId: z.string().nullable(),
  workspaceId: z.string().nullable(),
  parentId: z.string().nullable().describe('The session that opened this one.'),
  trustLevel: z.enum(['direct', 'sandboxed']),
  servers: stringListSchema.nullable().describe('The only servers it may use; null when it is not limited to some.'),
  permissions: stringListSchema,
  metadata: z.record(z.string(), jsonSchema).describe('Notes of the orchestrator; tools are not told.'),
  createdAt: instantSchema,
  lastActiveAt: instantSchema,
  expiresAt: instantSchema.describe('When it ends unless it is used before.'),
  endsAt: instantSchema.describe('The instant after which no use keeps it alive.'),
  ttlSeconds: z.number().int(),
} satisfies { readonly [Key in keyof SessionView]: z.ZodType<SessionView[Key]> });
