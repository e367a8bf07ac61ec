import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import {
  createGatewayServers,
  createMcpServers,
  describeServer,
  findSseServers,
} from '../../../gateway/inspect/mcp-servers.ts';
import { anonymousUser } from '../../../identity/principal.ts';
import { checkTrust } from '../../../sessions/check-fields.ts';
import { isSuppliedId, type Session, sessionViewOf } from '../../../sessions/session.ts';
import { jsonSchema, limitsSchema, stringListSchema } from '../../../sessions/session-schema.ts';
import { listForMatch, matchSession } from '../../../sessions/tools/reach.ts';
import type { SessionRecord } from '../../../stores/record.ts';
import { defineRoute, nameReader, type RouteRequest, showSession } from '../route.ts';
import { describeLimits } from './session-lists.ts';

const sessionParameter = 'Id of the session, a unique name, or a unique prefix of the id.';
const looseParameter =
  'Id of the session, a unique name (in any letter case, or its number alone: 049 for task#049), or a unique prefix of the id.';

/** A trust level in any accepted spelling, read as its normal form. */
export const trustLevelInput = z.string().transform(checkTrust).describe('Trust level: "direct" or "sandboxed".');

const restriction = z.strictObject({
  trustLevel: trustLevelInput.exactOptional(),
  ttlSeconds: z.number().exactOptional().describe('The session expires after this many seconds without a call.'),
  servers: stringListSchema.exactOptional().describe('Servers the session may use. An empty list means none.'),
  permissions: stringListSchema.exactOptional().describe('Names of the permissions of the session.'),
});

const newSessionBody = restriction.extend({
  name: z.string().exactOptional().describe('Name of the session, unique among the live sessions of the user.'),
  id: z
    .string()
    .exactOptional()
    .describe(
      'Id of the session, such as the one that you use yourself: 8 to 64 characters of a-z, 0-9 and "-". It cannot be used again. Default: a random id.',
    ),
  userId: z.string().exactOptional().describe('User the session belongs to. Default: "local".'),
  agentId: z.string().exactOptional().describe('Name of the agent that will use the session.'),
  workspaceId: z.string().exactOptional().describe('Workspace of the session. Default: none.'),
  parentId: z
    .string()
    .exactOptional()
    .describe(
      'Parent session: its id, a unique name, or a unique prefix of the id. The new session cannot exceed the limits of its parent, and ends with it.',
    ),
  task: z.string().exactOptional().describe('The work that the session is for, up to 4096 bytes. Agents see it.'),
  quotas: limitsSchema
    .exactOptional()
    .describe('Limits of the session, below quotas.session. A child also draws from the quotas of its parent.'),
  metadata: z
    .record(z.string(), jsonSchema)
    .exactOptional()
    .describe('Data to attach to the session. Tools do not see it.'),
  trustLevel: trustLevelInput
    .exactOptional()
    .describe('Trust level: "direct" or "sandboxed". Default: sessions.defaultTrust, capped by the limits.'),
  ttlSeconds: z
    .number()
    .exactOptional()
    .describe('The session expires after this many seconds without a call. Default: sessions.ttlSeconds.'),
  servers: stringListSchema
    .exactOptional()
    .describe(
      'Servers the session may use. An empty list means none. Default: all that its trust level and workspace allow.',
    ),
  permissions: stringListSchema.exactOptional().describe('Names of the permissions of the session. Default: none.'),
});

const maxItems = 200;
const itemLimit = { error: `a whole number from 1 to ${maxItems}` };

/** The members of a query that choose a page of the journal. */
export const journalPageQuery = z.object({
  before: z
    .string()
    .regex(/^\d{1,20}-\d{1,15}$/, '"next" of the previous page, unchanged')
    .optional()
    .describe('Value of "next" from the previous page.'),
  limit: z.coerce
    .number(itemLimit)
    .int(itemLimit)
    .min(1, itemLimit)
    .max(maxItems, itemLimit)
    .default(50)
    .describe('Maximum number of items per page.'),
});

const via = z.strictObject({ via: z.literal('gateway') });

const callToExplain = z.strictObject({
  tool: z.string().describe('Tool name, as "server__tool"; session tools of Ambit without a prefix.'),
  // Rules judge the text as it was sent, so it is not parsed here.
  args: z.string().optional().describe('Arguments of the call, as JSON text. Default: "{}".'),
});

/** Sessions, their servers and their calls. */
export const sessionRoutes = {
  'POST /api/v1/sessions': defineRoute({
    role: 'admin',
    summary: 'Opens a session, and returns its first token',
    description: 'A request for a trust level above the limits is refused; the requested level is never lowered.',
    body: newSessionBody,
    status: 201,
    returns: 'The session and its token',
    answer: 'openedSession',
    handle: createSession,
  }),
  'GET /api/v1/sessions/{id}': defineRoute({
    role: 'viewer',
    summary: 'Shows a session with its usage, its limits, what it does now and its sandbox',
    parameter: looseParameter,
    returns: 'The session',
    answer: 'sessionDetails',
    async handle(gateway, { parameter, caller }) {
      const record = await findRecord(gateway, parameter);
      const usage = await gateway.usage(record.id);
      const [more] = await gateway.sessions.readUses([record]);
      const sandbox = record.trustLevel === 'direct' ? null : await gateway.sandbox();
      return {
        ...showSession(sessionViewOf(record), caller),
        ...(usage === undefined ? {} : { usage: { ...usage, paceUsed: more?.paceUsed ?? 0 } }),
        limits: describeLimits(gateway.sessions.limitsOf(record)),
        children: more?.children ?? 0,
        activity: gateway.running?.activity.get(record.id) ?? null,
        sandbox,
      };
    },
  }),
  'PATCH /api/v1/sessions/{id}': defineRoute({
    role: 'admin',
    summary: 'Restricts a session and ends processes that are no longer allowed',
    description: 'A change that would widen the session is refused, and then no part of the request is applied.',
    parameter: sessionParameter,
    body: restriction,
    returns: 'The restricted session',
    answer: 'session',
    async handle(gateway, { parameter, body }) {
      const { id } = await findRecord(gateway, parameter, true);
      await gateway.restrictSession(id, body);
      return sessionViewOf(await findRecord(gateway, id, true));
    },
  }),
  'DELETE /api/v1/sessions/{id}': defineRoute({
    role: 'admin',
    summary: 'Ends a session and all sessions it opened',
    parameter: sessionParameter,
    returns: 'The session before it ended',
    answer: 'endedSession',
    async handle(gateway, { parameter }) {
      const record = await findRecord(gateway, parameter, true);
      if (!(await gateway.sessions.end(record.id))) throw sessionNotFoundError();
      return { ...sessionViewOf(record), ended: true as const };
    },
  }),
  'POST /api/v1/sessions/{id}/tokens': defineRoute({
    role: 'admin',
    summary: 'Issues another token of a session',
    description:
      'Use it for each run of an agent, instead of storing the first token. All tokens of a session have the same rights and end with it. A session has at most 16: beyond that, the one that was unused for longest stops working. The first token is never replaced.',
    parameter: sessionParameter,
    status: 201,
    returns: 'The token',
    answer: 'issuedToken',
    async handle(gateway, { parameter }) {
      const { id } = await findRecord(gateway, parameter, true);
      return { token: await gateway.issueToken(id) };
    },
  }),
  'GET /api/v1/sessions/{id}/servers': defineRoute({
    role: 'admin',
    summary: 'Lists the servers a session may use, ready for an agent SDK, and why others are excluded',
    parameter: looseParameter,
    returns: 'mcpServers, and the status of each server',
    answer: 'sessionServers',
    handle: listSessionServers,
  }),
  'POST /api/v1/sessions/{id}/servers': defineRoute({
    role: 'admin',
    summary: 'Lists the same servers as gateway URLs, with a new session token',
    description:
      'The session tools of Ambit are included unless rules deny all of them. Each request creates another token.',
    parameter: sessionParameter,
    body: via,
    status: 201,
    returns: 'mcpServers, and the status of each server',
    answer: 'sessionServers',
    handle: listGatewayServers,
  }),
  'GET /api/v1/sessions/{id}/calls': defineRoute({
    role: 'viewer',
    summary: 'Lists the calls of a session, newest first, from the journal of this gateway',
    description:
      'One request reads up to 16 MB of the journal, so a page can be empty although "next" is set. Calls of an ended session can be listed by its full id.',
    parameter: looseParameter,
    query: journalPageQuery,
    returns: 'A page of calls',
    answer: 'callsPage',
    async handle(gateway, { parameter, query, caller, signal }) {
      const isGone = isSuppliedId(parameter) && (await gateway.sessions.whyGone(parameter)) !== undefined;
      const id = isGone ? parameter : (await findRecord(gateway, parameter)).id;
      return gateway.calls(id, { ...query, signal, ...nameReader(caller) });
    },
  }),
  'POST /api/v1/sessions/{id}/explain': defineRoute({
    role: 'viewer',
    summary: 'Explains whether a call would be allowed, by which rule, and based on which facts',
    parameter: looseParameter,
    body: callToExplain,
    returns: 'The decision',
    answer: 'callExplanation',
    async handle(gateway, { parameter, body }) {
      const session = await findLoadedSession(gateway, parameter);
      return (await gateway.openAccess()).explainCall(session, body.tool, body.args);
    },
  }),
};

async function createSession(gateway: Operator, { body }: RouteRequest<{ body: typeof newSessionBody }>) {
  if (body.userId === anonymousUser) {
    throw new AmbitError('REQUEST_INVALID', { what: `No session can be opened for a user named "${anonymousUser}".` });
  }
  const { parentId, ...rest } = body;
  const parent = parentId === undefined ? {} : { parentId: (await findRecord(gateway, parentId, true)).id };
  const { record, token } = await gateway.openSession({ ...rest, ...parent }, 'control-api');
  return { ...sessionViewOf(record), token };
}

/**
 * Finds a live session of any user. A name may be written in other letter case or as its number alone, unless `isExact`:
 * what changes a session for good needs the exact one, since the number may mean another session a moment later.
 */
export async function findRecord(
  { sessions }: Pick<Operator, 'sessions'>,
  reference: string,
  isExact = false,
): Promise<SessionRecord> {
  const record = await sessions.find(reference);
  const found = record === undefined ? [] : [record];
  const match = await matchSession(reference, { found, listVisible: () => listForMatch(sessions.list, {}), isExact });
  // This also loads the session.
  if (match.record !== undefined) return record ?? (await sessions.find(match.record.id)) ?? match.record;
  const { isAmbiguous, candidates } = match;
  if (isAmbiguous) {
    const shown = candidates.map(({ id, name, userId }) => `${name ?? 'no name'} (${id.slice(0, 8)}, user ${userId})`);
    throw sessionNotFoundError(`Several live sessions match that: ${shown.join('; ')}.`);
  }
  const names = [...new Set(candidates.flatMap(({ name }) => (name === null ? [] : `"${name}"`)))];
  if (names.length === 0) throw sessionNotFoundError();
  throw sessionNotFoundError(`There is no live session with that id or name; did you mean ${names.join(', ')}?`);
}

async function findLoadedSession(gateway: Operator, reference: string, isExact = false): Promise<Session> {
  const session = gateway.sessions.get((await findRecord(gateway, reference, isExact)).id);
  if (session === undefined) throw sessionNotFoundError();
  return session;
}

export function sessionNotFoundError(
  what = 'There is no live session with that id, name or unique prefix.',
): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', { what });
}

async function listSessionServers(gateway: Operator, { parameter }: RouteRequest) {
  const session = await findLoadedSession(gateway, parameter);
  // The servers will be started in the folder of the session.
  await gateway.folders.folderFor(session);
  const { explain, narrowsTools } = await gateway.openAccess();
  const resolved = explain(session);
  const sseServers = await findSseServers(gateway, resolved);
  const mcpServers = createMcpServers(session, resolved, gateway.paths, narrowsTools, sseServers);
  gateway.recordResolution(session.id, Object.keys(mcpServers));
  return {
    mcpServers,
    servers: resolved.map((each) => describeServer(each, narrowsTools)),
  };
}

/**
 * Lists gateway addresses with a new token of the session. This is a POST because every request makes another token.
 */
async function listGatewayServers(gateway: Operator, { parameter, address }: RouteRequest<{ body: typeof via }>) {
  const { id } = await findLoadedSession(gateway, parameter, true);
  if (address === undefined) {
    throw new AmbitError('GATEWAY_UNREACHABLE', { what: 'This gateway has no HTTP address.' });
  }
  const token = await gateway.issueToken(id);
  const session = await findLoadedSession(gateway, id);
  const { explain, hasOwnTools } = await gateway.openAccess();
  const resolved = explain(session);
  const mcpServers = createGatewayServers(resolved, address, token, hasOwnTools(session));
  gateway.recordResolution(session.id, Object.keys(mcpServers));
  return {
    mcpServers,
    servers: resolved.map((each) => describeServer(each)),
  };
}
