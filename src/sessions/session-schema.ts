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
  parentId: z.string().nullable().describe('Id of the session that opened this one.'),
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
