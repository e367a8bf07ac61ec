import { credentialShape, nameShape } from './credentials.ts';
import { askedShape } from './explain-call.ts';
import { mergeShape } from './folders.ts';
import { callbackShape, startShape, whoseShape } from './logins.ts';
import { answers, instant, nullableText, query, taking, texts } from './openapi-parts.ts';
import { peoplePaths, peopleSchemas } from './openapi-people.ts';
import { policyPaths } from './openapi-policies.ts';
import { viaShape } from './servers.ts';
import { draftShape, narrowingShape } from './sessions.ts';

const schemas = {
  ...peopleSchemas,
  Session: {
    type: 'object',
    required: ['id', 'userId', 'trustLevel', 'createdAt', 'lastActiveAt', 'expiresAt', 'endsAt', 'ttlSeconds'],
    properties: {
      id: { type: 'string' },
      name: nullableText,
      userId: { type: 'string' },
      agentId: nullableText,
      workspaceId: nullableText,
      parentId: { ...nullableText, description: 'The session that opened this one.' },
      trustLevel: { enum: ['direct', 'sandboxed'] },
      servers: {
        ...texts,
        type: ['array', 'null'],
        description: 'The only servers it may use; null for no such list.',
      },
      permissions: texts,
      metadata: { type: 'object' },
      createdAt: instant,
      lastActiveAt: instant,
      expiresAt: instant,
      endsAt: instant,
      ttlSeconds: { type: 'integer' },
    },
  },
  Problem: {
    type: 'object',
    required: ['status', 'code', 'detail', 'hint'],
    properties: {
      type: { type: 'string' },
      title: { type: 'string' },
      status: { type: 'integer' },
      code: { type: 'string' },
      detail: { type: 'string' },
      hint: { type: 'string' },
    },
  },
  Call: {
    type: 'object',
    required: ['at', 'id', 'server', 'method', 'outcome', 'ms'],
    properties: {
      at: instant,
      id: { type: 'string', description: 'The correlation id of the exchange.' },
      server: { type: 'string' },
      method: { type: 'string' },
      name: { type: 'string', description: 'Of the tool, prompt or resource.' },
      outcome: { type: 'string', description: '"ok", a code of ours, or the number of a protocol error.' },
      rule: { type: 'string' },
      entrance: { enum: ['http', 'stdio'] },
      era: { enum: ['modern', 'handshake'] },
      workspaceId: { type: 'string' },
      cached: { type: 'string', description: 'The exchange whose result was given again.' },
      traceId: { type: 'string' },
      ms: { type: 'number' },
      bytesIn: { type: 'integer' },
      bytesOut: { type: 'integer' },
    },
  },
  Event: {
    type: 'object',
    required: ['type', 'at'],
    properties: {
      type: { enum: ['created', 'restricted', 'expired', 'ended', 'evicted', 'lost'] },
      at: instant,
      reason: { enum: ['ended', 'evicted', 'revoked', 'closed'] },
      session: { anyOf: [{ $ref: '#/components/schemas/Session' }, { type: 'object', required: ['id'] }] },
    },
  },
};

const session = { $ref: '#/components/schemas/Session' };
const object = { type: 'object' };
const id = {
  name: 'id',
  in: 'path',
  required: true,
  schema: { type: 'string' },
  description: 'The id, a unique name, or a unique prefix of the id.',
};

const listed = { type: 'object', properties: { sessions: { type: 'array', items: session }, next: nullableText } };
const opened = { allOf: [session, { type: 'object', properties: { token: { type: 'string' } } }] };

let made: object | undefined;

/** The control API, described for programs. */
export function openApi(): object {
  made ??= {
    openapi: '3.1.0',
    info: { title: 'Ambit control API', version: '1' },
    security: [{ admin: [] }],
    paths: {
      '/api/v1/sessions': {
        get: {
          summary: 'The live sessions, the oldest first',
          parameters: [
            query('user', 'Only those of this user.'),
            query('workspace', 'Only those in this workspace.'),
            query('parent', 'Only those that this session opened.'),
            query('after', '"next" of the page before.'),
            query('limit', 'At most this many, up to 1000.', 'integer'),
          ],
          responses: answers(200, 'A page of sessions', listed),
        },
        post: {
          summary: 'Opens a session; its token is shown only here',
          requestBody: taking(draftShape),
          responses: answers(201, 'The session and its token', opened),
        },
      },
      '/api/v1/sessions/{id}': {
        get: { summary: 'A session', parameters: [id], responses: answers(200, 'The session', session) },
        patch: {
          summary: 'Narrows a session, and ends what no longer fits',
          parameters: [id],
          requestBody: taking(narrowingShape),
          responses: answers(200, 'The session as it is now', session),
        },
        delete: {
          summary: 'Ends a session, and those it opened',
          parameters: [id],
          responses: answers(200, 'The session as it was', session),
        },
      },
      '/api/v1/sessions/{id}/calls': {
        get: {
          summary: 'The calls of a session, the newest first, from the journal of this gateway',
          parameters: [
            id,
            query('before', '"next" of the page before.'),
            query('limit', 'At most this many, up to 200; 50 unless said.', 'integer'),
          ],
          responses: answers(200, 'A page of calls; it may be empty and not the last', {
            type: 'object',
            properties: { calls: { type: 'array', items: { $ref: '#/components/schemas/Call' } }, next: nullableText },
          }),
        },
      },
      '/api/v1/sessions/{id}/servers': {
        get: {
          summary: 'The servers a session may use, for an agent SDK, and why others are out',
          parameters: [id],
          responses: answers(200, 'mcpServers and servers', object),
        },
        post: {
          summary: 'The same with addresses of the gateway and a further token',
          parameters: [id],
          requestBody: taking(viaShape),
          responses: answers(201, 'mcpServers and servers', object),
        },
      },
      '/api/v1/sessions/{id}/explain': {
        post: {
          summary: 'What a call would get, by which rule, from which claims',
          parameters: [id],
          requestBody: taking(askedShape),
          responses: answers(200, 'The decision', object),
        },
      },
      '/api/v1/sessions/{id}/diff': {
        get: {
          summary: 'What a session changed in the folder it has for itself, and was not merged',
          parameters: [id, query('workspace', 'Which folder, where it has several.')],
          responses: answers(200, 'files and a patch', object),
        },
      },
      '/api/v1/sessions/{id}/merge': {
        post: {
          summary: 'Brings that into the workspace: all of it or, where anything conflicts, nothing (409 with files)',
          parameters: [id],
          requestBody: taking(mergeShape),
          responses: answers(200, 'What became of each file', object),
        },
      },
      '/api/v1/sessions/{id}/folder': {
        delete: {
          summary: 'Removes the folder of a session that has ended, with what was not merged',
          parameters: [id, query('workspace', 'Which folder, where it has several.')],
          responses: answers(200, 'Which one is gone', object),
        },
      },
      '/api/v1/credentials': {
        get: {
          summary: 'What servers are given on behalf of users; never the values',
          responses: answers(200, 'The credentials', object),
        },
        post: {
          summary: 'Keeps a value for a user and a server, sealed',
          requestBody: taking(credentialShape),
          responses: answers(200, 'Which one was set', object),
        },
        delete: {
          summary: 'Forgets a value',
          requestBody: taking(nameShape),
          responses: answers(200, 'Whether there was one', object),
        },
      },
      ...peoplePaths,
      '/api/v1/logins': {
        get: {
          summary: 'Who is logged in to which server',
          responses: answers(200, 'The logins; never tokens', object),
        },
        post: {
          summary: 'Starts a login; the browser of the user goes to the address in the answer',
          requestBody: taking(startShape),
          responses: answers(201, 'authorizationUrl and redirectUri', object),
        },
        delete: {
          summary: 'Ends a login, here and at the authorization server',
          requestBody: taking(whoseShape),
          responses: answers(200, 'Whether there was one', object),
        },
      },
      '/api/v1/logins/complete': {
        post: {
          summary: 'Ends what was started, with the address that the browser was sent back to',
          requestBody: taking(callbackShape),
          responses: answers(200, 'The login', object),
        },
      },
      ...policyPaths,
      '/api/v1/events': {
        get: {
          summary: 'What happens to sessions, as it happens (server-sent events)',
          parameters: [{ name: 'Last-Event-ID', in: 'header', required: false, schema: { type: 'string' } }],
          responses: answers(
            200,
            'Events; the data of each is one',
            { $ref: '#/components/schemas/Event' },
            'text/event-stream',
          ),
        },
      },
      '/api/v1/openapi.json': {
        get: { summary: 'This description', responses: answers(200, 'OpenAPI 3.1', object) },
      },
    },
    components: {
      schemas,
      securitySchemes: {
        admin: {
          type: 'http',
          scheme: 'bearer',
          description: 'The admin token, or an access token with the admin role; none on the control socket.',
        },
      },
    },
  };
  return made;
}
