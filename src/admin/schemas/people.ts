import { z } from 'zod';
import { instant, texts } from '../../sessions/session-schema.ts';
import { givenTrust, list } from './parts.ts';

export const newUser = z.strictObject({
  name: z.string(),
  teams: texts.optional().describe('The user joins these.'),
});
export const teamsOfUser = z.strictObject({ teams: texts });
export const newKey = z.strictObject({
  userId: z.string(),
  trustLevel: givenTrust.optional(),
  workspaces: texts.optional().describe('The only ones it may use; all unless said.'),
  scopes: texts
    .optional()
    .describe('The permissions that its sessions hold; nothing that needs a permission unless said.'),
  lifeSeconds: z.number().optional().describe('It expires after so long; never unless said.'),
});
export const rotation = z.strictObject({
  overlapSeconds: z.number().optional().describe('The secret before works for so long; 0 unless said.'),
});
export const keysQuery = z.object({ user: z.string().optional().describe('Only those of this user.') });

const declared = z.boolean().describe('Written in the configuration, and changed only there.');

export const user = z
  .object({ name: z.string(), teams: texts, declared, createdAt: instant.nullable() })
  .meta({ id: 'User' });
export const users = z.object({ organisation: z.string().nullable(), users: list(user) });
export const removedUser = z.object({
  name: z.string(),
  removed: z.literal(true),
  keys: z.int().describe('How many were revoked.'),
  sessions: z.int().describe('How many were ended.'),
});
const team = z.object({ name: z.string(), declared, members: texts }).meta({ id: 'Team' });
export const teams = z.object({ teams: list(team) });

export const key = z
  .object({
    id: z.string(),
    userId: z.string(),
    state: z.enum(['active', 'expired', 'revoked']),
    trustLevel: z.enum(['direct', 'sandboxed']).describe('The most a session may have that it opens or uses.'),
    workspaces: texts.nullable().describe('The only ones it may use; null for all.'),
    scopes: texts.nullable().describe('The only permissions it brings or meets; null for no such list.'),
    createdAt: instant,
    expiresAt: instant.nullable(),
    revokedAt: instant.nullable(),
    lastUsedAt: instant.nullable().describe('Behind by a minute at most.'),
    previousUntil: instant.nullable().describe('Until when the secret before the last rotation is taken too.'),
  })
  .meta({ id: 'Key' });
export const keys = z.object({ keys: list(key) });
export const mintedKey = key.and(z.object({ key: z.string().describe('Shown only here.') }));
export const revokedKey = key.and(z.object({ sessions: z.int().describe('How many were ended.') }));
