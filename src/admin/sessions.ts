import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import type { Operator } from '../gateway/operator.ts';
import { anonymousUser } from '../identity/principal.ts';
import { isGivenId } from '../sessions/given-id.ts';
import { type Session, type SessionDraft, viewOf } from '../sessions/session.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionFilter } from '../stores/store.ts';
import { normalizeTrust } from '../trust/trust-level.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';

export const narrowingShape = z.strictObject({
  trustLevel: z.string().optional(),
  ttlSeconds: z.number().optional(),
  servers: z.array(z.string()).optional(),
  permissions: z.array(z.string()).optional(),
});

export const draftShape = z.strictObject({
  ...narrowingShape.shape,
  name: z.string().optional(),
  userId: z.string().optional(),
  agentId: z.string().optional(),
  workspaceId: z.string().optional(),
  parentId: z.string().optional(),
  metadata: z.record(z.string(), z.json()).optional(),
});

const mostShown = 1000;

export async function createSession(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { parentId, ...draft } = readDraft(body);
  const parent = parentId === undefined ? {} : { parentId: (await foundRecord(gateway, parentId)).id };
  const { record, token } = await gateway.openSession({ ...draft, ...parent });
  return { status: 201, body: { ...viewOf(record), token } };
}

/** Oldest first; `next` names the page after, for `after`. */
export async function listSessions(gateway: Operator, { query }: Asked): Promise<AdminAnswer> {
  const limit = query.get('limit');
  const filter = Object.fromEntries(
    [
      ['userId', query.get('user')],
      ['workspaceId', query.get('workspace')],
      ['parentId', query.get('parent')],
    ].filter(([, value]) => value !== null),
  ) as SessionFilter;
  const after = query.get('after');
  const { sessions, next } = await gateway.sessions.list(filter, {
    limit: limit === null ? mostShown : Number(limit),
    ...(after === null ? {} : { after }),
  });
  return { status: 200, body: { sessions: sessions.map(viewOf), next } };
}

export async function showSession(gateway: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  const record = await foundRecord(gateway, parameter);
  const usage = await gateway.usage(record.id);
  const sandbox = record.trustLevel === 'direct' ? null : await gateway.sandbox();
  return { status: 200, body: { ...viewOf(record), ...(usage === undefined ? {} : { usage }), sandbox } };
}

export async function endSession(gateway: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  const record = await foundRecord(gateway, parameter);
  if (!(await gateway.sessions.end(record.id))) throw notFound();
  return { status: 200, body: { ...viewOf(record), ended: true } };
}

export async function restrictSession(gateway: Operator, { parameter, body }: Asked): Promise<AdminAnswer> {
  const { id } = await foundRecord(gateway, parameter);
  await gateway.restrictSession(id, withTrust(readBody(narrowingShape, body)));
  return { status: 200, body: viewOf(await foundRecord(gateway, id)) };
}

const mostCalls = 200;

/** Newest first, from the journal of this gateway; of one that is gone too, for whoever knows its id. */
export async function listCalls(gateway: Operator, { parameter, query }: Asked): Promise<AdminAnswer> {
  const limit = Number(query.get('limit') ?? 50);
  const before = query.get('before') ?? undefined;
  if (!Number.isInteger(limit) || limit < 1 || limit > mostCalls) {
    throw new AmbitError('REQUEST_INVALID', { what: `limit: a whole number from 1 to ${mostCalls}` });
  }
  if (before !== undefined && !/^\d{1,15}$/.test(before)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'before: "next" of the page before, as it was' });
  }
  const isGone = isGivenId(parameter) && (await gateway.sessions.whyGone(parameter)) !== undefined;
  const id = isGone ? parameter : (await foundRecord(gateway, parameter)).id;
  return { status: 200, body: await gateway.calls(id, { limit, before }) };
}

async function foundRecord(gateway: Operator, reference: string): Promise<SessionRecord> {
  const record = await gateway.sessions.find(reference);
  if (record === undefined) throw notFound();
  return record;
}

/** As this process holds it, for those who decide on it. */
export async function heldSession(gateway: Operator, reference: string): Promise<Session> {
  const session = gateway.sessions.get((await foundRecord(gateway, reference)).id);
  if (session === undefined) throw notFound();
  return session;
}

export function notFound(what = 'No live session has that id, name or unique prefix.'): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', { what });
}

function readDraft(body: unknown): SessionDraft {
  const draft = withTrust(readBody(draftShape, body));
  if (draft.userId === anonymousUser) {
    throw new AmbitError('REQUEST_INVALID', { what: `No session can be opened for a user named "${anonymousUser}".` });
  }
  return draft;
}

export function readBody<Shape extends z.ZodType>(shape: Shape, body: unknown): z.output<Shape> {
  const read = shape.safeParse(body);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const where = issue?.path.join('.') || 'the body';
  throw new AmbitError('REQUEST_INVALID', { what: `${where}: ${issue?.message ?? 'not valid'}` });
}

/** What was given, with the trust level in the spelling that counts. */
function withTrust<Given extends { readonly trustLevel?: string | undefined }>(given: Given): SessionDraft {
  const trustLevel = given.trustLevel === undefined ? undefined : normalizeTrust(given.trustLevel);
  if (given.trustLevel !== undefined && trustLevel === undefined) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The trust level must be "direct" or "sandboxed".' });
  }
  const entries = Object.entries({ ...given, trustLevel }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as SessionDraft;
}
