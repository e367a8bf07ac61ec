import * as z from 'zod';
import { permissionsWith } from '../sessions/as-token-says.ts';
import { type Session, viewOf } from '../sessions/session.ts';
import type { SessionRecord } from '../stores/record.ts';

/** The argument that every tool has. */
export const sessionArgument = z
  .string()
  .min(1)
  .describe('The session: its id, a unique name or prefix of the id, or "current" for the one this call belongs to.');

const instant = z.string().describe('ISO 8601');

export const shownSession = z.strictObject({
  id: z.string(),
  name: z.string().nullable(),
  userId: z.string(),
  agentId: z.string().nullable(),
  workspaceId: z.string().nullable(),
  parentId: z.string().nullable().describe('The session that opened this one.'),
  trustLevel: z.enum(['direct', 'sandboxed']),
  servers: z.array(z.string()).nullable().describe('The only servers it may use; null when it is not limited to some.'),
  permissions: z.array(z.string()),
  createdAt: instant,
  lastActiveAt: instant,
  expiresAt: instant.describe('When it ends unless it is used before.'),
  endsAt: instant.describe('The instant after which no use keeps it alive.'),
  ttlSeconds: z.number().int(),
  current: z.boolean().describe('Whether this call belongs to it.'),
});

/** Its metadata stays with the orchestrator that wrote it. */
export function showSession(record: SessionRecord, current: Session): z.input<typeof shownSession> {
  const { metadata: _, servers, permissions, ...rest } = viewOf(record);
  return {
    ...rest,
    servers: servers === null ? null : [...servers],
    permissions: permissionsWith(permissions, current.byToken),
    current: record.id === current.id,
  };
}
