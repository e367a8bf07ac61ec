import { z } from 'zod';
import { defineRoute } from '../route.ts';

export const credentialName = z.strictObject({
  userId: z.string(),
  server: z.string(),
  env: z.string().optional().describe('The variable in which the server finds it; either this or "header".'),
  header: z.string().optional().describe('The header in which the server finds it.'),
});

export const loginName = z.strictObject({ userId: z.string(), server: z.string() });

const newLogin = loginName.extend({
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

const loginCallback = loginName.extend({
  callback: z.string().max(16_384).describe('The address that the browser was sent back to.'),
});

/** The credentials that servers are given on behalf of users. */
export const credentialRoutes = {
  'GET /api/v1/credentials': defineRoute({
    summary: 'Lists what servers are given on behalf of users; never the values',
    returns: 'The credentials',
    answer: 'credentials',
    handle: async (gateway) => ({ credentials: (await gateway.openAuth()).credentials.list() }),
  }),
  'POST /api/v1/credentials': defineRoute({
    summary: 'Keeps a value for a user and a server, sealed',
    body: credentialName.extend({ value: z.string().describe('Never shown again.') }),
    returns: 'Which one was set',
    answer: 'setCredential',
    async handle(gateway, { body }) {
      const { value, ...which } = body;
      await (await gateway.openAuth()).credentials.set(which, value);
      return { ...which, set: true as const };
    },
  }),
  'DELETE /api/v1/credentials': defineRoute({
    summary: 'Forgets a value',
    body: credentialName,
    returns: 'Whether there was one',
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
    summary: 'Lists who is logged in to which server',
    returns: 'The logins; never tokens',
    answer: 'logins',
    handle: async (gateway) => ({ logins: (await gateway.openAuth()).logins.list() }),
  }),
  'POST /api/v1/logins': defineRoute({
    summary: 'Starts a login; the browser of the user goes to the address in the answer',
    body: newLogin,
    status: 201,
    returns: 'Where the browser goes, and where it comes back to',
    answer: 'startedLogin',
    async handle(gateway, { body }) {
      const { port, ...which } = body;
      return (await gateway.openAuth()).logins.start(which, port);
    },
  }),
  'DELETE /api/v1/logins': defineRoute({
    summary: 'Ends a login, here and at the authorization server',
    body: loginName,
    returns: 'Whether there was one',
    answer: 'removedLogin',
    handle: async (gateway, { body }) => ({ ...body, removed: await (await gateway.openAuth()).logins.remove(body) }),
  }),
  'POST /api/v1/logins/complete': defineRoute({
    summary: 'Completes a login with the address that the browser was sent back to',
    body: loginCallback,
    returns: 'The login',
    answer: 'login',
    async handle(gateway, { body }) {
      const { callback, ...which } = body;
      return (await gateway.openAuth()).logins.complete(callback, which);
    },
  }),
};
