import { z } from 'zod';
import { instantSchema } from '../../../sessions/session-schema.ts';
import { listOf } from './parts.ts';

const role = z.enum(['admin', 'viewer']);
const by = z
  .string()
  .describe('Credential: `admin-token`, `control-socket` for the commands, or the user of an access token.');

export const whoami = z.object({
  role,
  by,
  consoleId: z.string().nullable().describe('Console whose token was sent; null for any other credential.'),
  expiresAt: instantSchema.nullable().describe('When the credential expires; null if it does not expire.'),
  version: z.string().describe('Version of the gateway.'),
});

const signedIn = {
  id: z.string(),
  role,
  by: by.describe(
    'Credential that signed the console in: `admin-token`, `control-socket` for the commands, or the user of an access token.',
  ),
  expiresAt: instantSchema,
};

export const consoles = z.object({
  consoles: listOf(
    z
      .object({
        ...signedIn,
        createdAt: instantSchema,
        lastUsedAt: instantSchema,
        address: z
          .string()
          .nullable()
          .describe('Network address of its last request, or of the proxy in front of Ambit.'),
        isCurrent: z.boolean().describe('True for the console whose token was sent.'),
      })
      .meta({ id: 'Console' }),
  ),
});

export const openedConsole = z.object({
  ...signedIn,
  token: z.string().describe('Send it as `Authorization: Bearer …`. Only this response contains it.'),
});

export const consoleLink = z.object({
  url: z.string().describe('Link for a browser. Its fragment contains the one-time code.'),
  browserUrl: z
    .string()
    .nullable()
    .describe(
      'The same link under a name that only this start of the gateway has, for a browser on the same machine. Other programs may not resolve the name. Null if the gateway does not listen on loopback.',
    ),
  consoleId: z.string().describe('Id of the console that the link opens. It is listed once somebody has signed in.'),
  role,
  expiresAt: instantSchema.describe('When the code expires.'),
});

export const revokedConsole = z.object({ id: z.string(), revoked: z.literal(true) });
