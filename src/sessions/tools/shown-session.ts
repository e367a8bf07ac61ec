import * as z from 'zod';
import type { SessionRecord } from '../../stores/record.ts';
import { permissionsWith } from '../as-token-says.ts';
import { type Session, viewOf } from '../session.ts';
import { sessionSchema } from '../session-schema.ts';

/** The argument that every tool has. */
export const sessionArgument = z
  .string()
  .min(1)
  .optional()
  .describe(
    'The session: its id, a unique name or prefix of the id, or "current" (the default) for the one of this call.',
  );

export const shownSession = sessionSchema
  .omit({ metadata: true })
  .extend({ current: z.boolean().describe('Whether this call belongs to it.') });

/** Its metadata stays with the orchestrator that wrote it. */
export function showSession(record: SessionRecord, current: Session): z.input<typeof shownSession> {
  const { metadata: _, permissions, ...rest } = viewOf(record);
  return { ...rest, permissions: permissionsWith(permissions, current.byToken), current: record.id === current.id };
}
