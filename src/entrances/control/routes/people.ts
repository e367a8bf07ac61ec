import { z } from 'zod';
import { suggestClosest } from '../../../config/explain/suggest.ts';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { stringListSchema } from '../../../sessions/session-schema.ts';
import { defineRoute } from '../route.ts';
import { trustLevelInput } from './sessions.ts';

const userParameter = 'Name of the user.';
const keyParameter = 'Id of the key, or a unique prefix of it.';

const newUser = z.strictObject({
  name: z.string().describe('Name of the user.'),
  teams: stringListSchema.optional().describe('Teams to add the user to.'),
});

const newKey = z.strictObject({
  userId: z.string().describe('Name of the user.'),
  trustLevel: trustLevelInput
    .optional()
    .describe('Highest trust level of sessions opened or used with this key. Default: "direct".'),
  workspaces: stringListSchema.optional().describe('Workspaces the key may use. Default: all.'),
  scopes: stringListSchema
    .optional()
    .describe(
      'Permissions of sessions opened with this key. The key cannot use sessions that have other permissions. Default: no permissions, and no such limit.',
    ),
  lifeSeconds: z.number().optional().describe('Seconds until the key expires. Default: never.'),
});

const rotation = z.strictObject({
  overlapSeconds: z.number().optional().describe('Seconds for which the old secret is still accepted. Default: 0.'),
});

async function userNotFoundError(people: Operator['people'], name: string): Promise<AmbitError> {
  const names = (await people.users.list()).map((user) => user.name);
  return new AmbitError('USER_NOT_FOUND', {
    what: `There is no user "${name.slice(0, 128)}"${suggestClosest(name, names) || '.'}`,
  });
}

/** Users, teams and their keys. */
export const peopleRoutes = {
  'GET /api/v1/users': defineRoute({
    role: 'viewer',
    summary: 'Lists all users',
    returns: 'The organisation and its users',
    answer: 'users',
    handle: async ({ people }) => ({ organisation: people.organisation() ?? null, users: await people.users.list() }),
  }),
  'POST /api/v1/users': defineRoute({
    role: 'admin',
    summary: 'Adds a user. An existing user is added to the given teams',
    body: newUser,
    returns: 'The user',
    answer: 'user',
    handle: ({ people }, { body }) => people.users.add(body.name, body.teams),
  }),
  'GET /api/v1/users/{id}': defineRoute({
    role: 'viewer',
    summary: 'Shows a user',
    parameter: userParameter,
    returns: 'The user',
    answer: 'user',
    async handle({ people }, { parameter }) {
      const user = await people.users.get(parameter);
      if (user === undefined) throw await userNotFoundError(people, parameter);
      return user;
    },
  }),
  'PATCH /api/v1/users/{id}': defineRoute({
    role: 'admin',
    summary: 'Replaces the teams of a user',
    parameter: userParameter,
    body: z.strictObject({ teams: stringListSchema }),
    returns: 'The user',
    answer: 'user',
    handle: ({ people }, { parameter, body }) => people.users.setTeams(parameter, body.teams),
  }),
  'DELETE /api/v1/users/{id}': defineRoute({
    role: 'admin',
    summary: 'Removes a user, revokes their keys, and ends the sessions opened with those keys',
    parameter: userParameter,
    returns: 'The number of revoked keys and ended sessions',
    answer: 'removedUser',
    async handle({ people }, { parameter }) {
      const removed = await people.users.remove(parameter);
      if (removed === undefined) throw await userNotFoundError(people, parameter);
      return { name: parameter, removed: true as const, ...removed };
    },
  }),
  'GET /api/v1/teams': defineRoute({
    role: 'viewer',
    summary: 'Lists the teams and their members',
    returns: 'The teams',
    answer: 'teams',
    handle: async ({ people }) => ({ teams: await people.teams() }),
  }),
  'GET /api/v1/keys': defineRoute({
    role: 'viewer',
    summary: 'Lists the API keys, without their secrets',
    query: z.object({ user: z.string().optional().describe('Only keys of this user.') }),
    returns: 'The keys',
    answer: 'keys',
    handle: async ({ people }, { query }) => ({ keys: await people.keys.list({ userId: query.user }) }),
  }),
  'POST /api/v1/keys': defineRoute({
    role: 'admin',
    summary: 'Creates an API key for a user. Only this response contains the key',
    body: newKey,
    status: 201,
    returns: 'The key',
    answer: 'mintedKey',
    async handle({ people }, { body }) {
      const isKnown = (await people.users.get(body.userId)) !== undefined;
      if (!isKnown) throw await userNotFoundError(people, body.userId);
      const { view, key } = await people.keys.create(body);
      return { ...view, key };
    },
  }),
  'GET /api/v1/keys/{id}': defineRoute({
    role: 'viewer',
    summary: 'Shows a key',
    parameter: keyParameter,
    returns: 'The key',
    answer: 'key',
    handle: ({ people }, { parameter }) => people.keys.get(parameter),
  }),
  'DELETE /api/v1/keys/{id}': defineRoute({
    role: 'admin',
    summary: 'Revokes a key permanently and ends the sessions opened with it',
    parameter: keyParameter,
    returns: 'The key and the number of ended sessions',
    answer: 'revokedKey',
    async handle({ people }, { parameter }) {
      const { view, sessions } = await people.keys.revoke(parameter);
      return { ...view, sessions };
    },
  }),
  'POST /api/v1/keys/{id}/rotate': defineRoute({
    role: 'admin',
    summary: 'Creates a new secret for a key. The old secret is accepted for overlapSeconds',
    parameter: keyParameter,
    body: rotation,
    status: 201,
    returns: 'The key',
    answer: 'mintedKey',
    async handle({ people }, { parameter, body }) {
      const { view, key } = await people.keys.rotate(parameter, body.overlapSeconds);
      return { ...view, key };
    },
  }),
};
