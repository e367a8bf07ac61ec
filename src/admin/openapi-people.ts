import { answers, instant, nullableText, query, taking, texts } from './openapi-parts.ts';
import { keyShape, rotateShape, teamsShape, userShape } from './people.ts';

const nullableTexts = { ...texts, type: ['array', 'null'] };
const nullableInstant = { ...instant, type: ['string', 'null'] };

export const peopleSchemas = {
  User: {
    type: 'object',
    required: ['name', 'teams', 'declared'],
    properties: {
      name: { type: 'string' },
      teams: texts,
      declared: { type: 'boolean', description: 'Written in the configuration, and changed only there.' },
      createdAt: nullableInstant,
    },
  },
  Team: {
    type: 'object',
    required: ['name', 'declared', 'members'],
    properties: { name: { type: 'string' }, declared: { type: 'boolean' }, members: texts },
  },
  Key: {
    type: 'object',
    required: ['id', 'userId', 'state', 'trustLevel', 'createdAt'],
    properties: {
      id: { type: 'string' },
      userId: { type: 'string' },
      state: { enum: ['active', 'expired', 'revoked'] },
      trustLevel: { enum: ['direct', 'sandboxed'], description: 'The most a session may have that it opens or uses.' },
      workspaces: { ...nullableTexts, description: 'The only ones it may use; null for all.' },
      scopes: { ...nullableTexts, description: 'The only permissions it brings or meets; null for no such list.' },
      createdAt: instant,
      expiresAt: nullableInstant,
      revokedAt: nullableInstant,
      lastUsedAt: { ...nullableInstant, description: 'Behind by a minute at most.' },
      previousUntil: {
        ...nullableInstant,
        description: 'Until when the secret before the last rotation is taken too.',
      },
    },
  },
};

const [user, team, key] = ['User', 'Team', 'Key'].map((name) => ({ $ref: `#/components/schemas/${name}` }));
const minted = { allOf: [key, { type: 'object', required: ['key'], properties: { key: { type: 'string' } } }] };
const name = {
  name: 'id',
  in: 'path',
  required: true,
  schema: { type: 'string' },
  description: 'The name of the user.',
};
const id = {
  name: 'id',
  in: 'path',
  required: true,
  schema: { type: 'string' },
  description: 'The id, or a beginning of it that fits only one.',
};

export const peoplePaths: Readonly<Record<string, unknown>> = {
  '/api/v1/users': {
    get: {
      summary: 'The users there are, declared or added',
      responses: answers(200, 'The organisation and its users', {
        type: 'object',
        properties: { organisation: nullableText, users: { type: 'array', items: user } },
      }),
    },
    post: {
      summary: 'Adds a user; one who is there joins the teams named',
      requestBody: taking(userShape),
      responses: answers(200, 'The user', user as object),
    },
  },
  '/api/v1/users/{id}': {
    get: { summary: 'A user', parameters: [name], responses: answers(200, 'The user', user as object) },
    patch: {
      summary: 'Puts a user into these teams and no others',
      parameters: [name],
      requestBody: taking(teamsShape),
      responses: answers(200, 'The user', user as object),
    },
    delete: {
      summary: 'Removes a user, revokes the keys, and ends the sessions opened with them',
      parameters: [name],
      responses: answers(200, 'How many keys and sessions that were', { type: 'object' }),
    },
  },
  '/api/v1/teams': {
    get: {
      summary: 'The teams there are, and who is in them',
      responses: answers(200, 'The teams', {
        type: 'object',
        properties: { teams: { type: 'array', items: team } },
      }),
    },
  },
  '/api/v1/keys': {
    get: {
      summary: 'The keys there are; never what proves them',
      parameters: [query('user', 'Only those of this user.')],
      responses: answers(200, 'The keys', { type: 'object', properties: { keys: { type: 'array', items: key } } }),
    },
    post: {
      summary: 'Makes a key for a user; it is shown only here',
      requestBody: taking(keyShape),
      responses: answers(201, 'The key', minted),
    },
  },
  '/api/v1/keys/{id}': {
    get: { summary: 'A key', parameters: [id], responses: answers(200, 'The key', key as object) },
    delete: {
      summary: 'Revokes a key for good, and ends the sessions opened with it',
      parameters: [id],
      responses: answers(200, 'The key, and how many sessions that were', key as object),
    },
  },
  '/api/v1/keys/{id}/rotate': {
    post: {
      summary: 'Another secret for the same key; the one before is taken for as long as is said',
      parameters: [id],
      requestBody: taking(rotateShape),
      responses: answers(201, 'The key', minted),
    },
  },
};
