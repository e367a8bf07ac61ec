import { z } from 'zod';
import { instantSchema, stringListSchema } from '../../../sessions/session-schema.ts';
import { credentialName, loginName } from '../routes/credentials.ts';
import { mode, objectiveId, policyName, scope } from '../routes/policies.ts';
import { declaredFlag as declared, listOf } from './parts.ts';

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
        outcome: z.enum(['given', 'disabled', 'replaced', 'locked out']).describe('given: the model gets the policy.'),
        by: z.string().nullable().describe('Scope of the policy of the same name that takes precedence.'),
      }),
    ),
  ).describe('All policies that were considered.'),
  objectives: listOf(objective),
  block: z.string().describe('Text that the model gets.'),
});
