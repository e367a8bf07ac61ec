import { z } from 'zod';
import { instant, texts } from '../../sessions/session-schema.ts';
import { list } from './parts.ts';

export const credentialName = z.strictObject({
  userId: z.string(),
  server: z.string(),
  env: z.string().optional().describe('The variable in which the server finds it; either this or "header".'),
  header: z.string().optional().describe('The header in which the server finds it.'),
});
export const newCredential = credentialName.extend({ value: z.string().describe('Never shown again.') });

export const credentials = z.object({
  credentials: list(
    credentialName.extend({
      setAt: instant,
      usable: z.boolean().describe('False when it cannot be opened with the key that is here.'),
    }),
  ),
});
export const setCredential = credentialName.extend({ set: z.literal(true) });
export const removedCredential = credentialName.extend({
  removed: z.boolean().describe('False when there was none.'),
});

export const loginName = z.strictObject({ userId: z.string(), server: z.string() });
export const newLogin = loginName.extend({
  port: z
    .number()
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe(
      'Where a command waits for the browser on its own machine; without one the browser comes back to the gateway.',
    ),
});
export const loginCallback = loginName.extend({
  callback: z.string().max(16_384).describe('The address that the browser was sent back to.'),
});

export const login = z.object({
  userId: z.string(),
  server: z.string(),
  issuer: z.string(),
  scopes: texts,
  state: z
    .enum(['active', 'lost', 'wanted'])
    .describe('lost: the user has to log in again. wanted: the server wants more than was agreed to.'),
  why: z.string().optional(),
  madeAt: instant,
  expiresAt: instant.optional(),
});
export const logins = z.object({ logins: list(login) });
export const startedLogin = z.object({
  authorizationUrl: z.string().describe('Where the browser of the user goes.'),
  redirectUri: z.string(),
});
export const removedLogin = loginName.extend({ removed: z.boolean().describe('False when there was none.') });
