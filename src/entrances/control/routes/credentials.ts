import { z } from 'zod';
import { defineRoute } from '../route.ts';

export const credentialName = z.strictObject({
  userId: z.string().describe('Name of the user.'),
  server: z.string().describe('Name of the server.'),
  env: z.string().optional().describe('Environment variable that carries the credential. Set either this or "header".'),
  header: z.string().optional().describe('HTTP header that carries the credential.'),
});

export const loginName = z.strictObject({
  userId: z.string().describe('Name of the user.'),
  server: z.string().describe('Name of the server.'),
});

const newLogin = loginName.extend({
  port: z
    .number()
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('Local port on which a command waits for the browser. Without it, the browser returns to the gateway.'),
});

const loginCallback = loginName.extend({
  callback: z.string().max(16_384).describe('URL that the browser was redirected to.'),
});

/** The credentials that servers are given on behalf of users. */
export const credentialRoutes = {
  'GET /api/v1/credentials': defineRoute({
    role: 'viewer',
    summary: 'Lists the credentials of users for servers, without their values',
    returns: 'The credentials',
    answer: 'credentials',
    handle: async (gateway) => ({ credentials: (await gateway.openAuth()).credentials.list() }),
  }),
  'POST /api/v1/credentials': defineRoute({
    role: 'admin',
    summary: 'Stores a credential of a user for a server, encrypted',
    body: credentialName.extend({ value: z.string().describe('The credential. No response ever contains it.') }),
    returns: 'The name of the stored credential',
    answer: 'setCredential',
    async handle(gateway, { body }) {
      const { value, ...which } = body;
      await (await gateway.openAuth()).credentials.set(which, value);
      return { ...which, set: true as const };
    },
  }),
  'DELETE /api/v1/credentials': defineRoute({
    role: 'admin',
    summary: 'Deletes a credential',
    body: credentialName,
    returns: 'Whether it existed',
    answer: 'removedCredential',
    handle: async (gateway, { body }) => ({
      ...body,
      removed: await (await gateway.openAuth()).credentials.remove(body),
    }),
  }),
};

/** The logins of users at servers. */
export const loginRoutes = {
  'GET /api/v1/logins': defineRoute({
    role: 'viewer',
    summary: 'Lists the OAuth logins of users to servers',
    returns: 'The logins, without tokens',
    answer: 'logins',
    handle: async (gateway) => ({ logins: (await gateway.openAuth()).logins.list() }),
  }),
  'POST /api/v1/logins': defineRoute({
    role: 'admin',
    summary: 'Starts an OAuth login. Open the URL in the response in the browser of the user',
    body: newLogin,
    status: 201,
    returns: 'The URL to open, and the redirect URL',
    answer: 'startedLogin',
    async handle(gateway, { body }) {
      const { port, ...which } = body;
      return (await gateway.openAuth()).logins.start(which, port);
    },
  }),
  'DELETE /api/v1/logins': defineRoute({
    role: 'admin',
    summary: 'Deletes a login and revokes it at the authorization server',
    body: loginName,
    returns: 'Whether it existed',
    answer: 'removedLogin',
    handle: async (gateway, { body }) => ({ ...body, removed: await (await gateway.openAuth()).logins.remove(body) }),
  }),
  'POST /api/v1/logins/complete': defineRoute({
    role: 'admin',
    summary: 'Completes a login with the URL that the browser was redirected to',
    body: loginCallback,
    returns: 'The login',
    answer: 'login',
    async handle(gateway, { body }) {
      const { callback, ...which } = body;
      return (await gateway.openAuth()).logins.complete(callback, which);
    },
  }),
};
